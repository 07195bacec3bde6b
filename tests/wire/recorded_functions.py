"""The functions that were called when DuckDB was recorded, as an app would declare them.

Their names and those of their parameters are on the wire.
"""

# ruff: noqa: A002, A006, PT028

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc

import sparkport
from sparkport.catalog import ANY

Texts = Annotated[pa.Array, pa.string()]
Numbers = Annotated[pa.Array, pa.int64()]
WIDE = {f"result_{number}": pa.int32() for number in range(20)}

app = sparkport.App(schema="utils")


@app.scalar_function()
def test_uppercase(a: Texts) -> Texts:
    """Write in capitals."""
    return pc.utf8_upper(a)


@app.scalar_function()
def test_add(a: Numbers, b: Numbers) -> Numbers:
    """Add two numbers."""
    return pc.add(a, b)


@app.scalar_function(parameters={"a": ANY})
def test_any_type(a: pa.Array) -> Texts:
    """Tell the argument as text."""
    return (a.storage if isinstance(a, pa.ExtensionArray) else a).cast(pa.string())


@app.scalar_function(returns=list[int])
def collatz_sequence(n: Numbers) -> list[list[int]]:
    """Halve, or triple and add one, until one is reached."""

    def steps(number: int) -> Iterator[int]:
        while number != 1:
            number = number * 3 + 1 if number % 2 else number // 2
            yield number

    return [list(steps(number)) for number in n.to_pylist()]


@app.table_function(columns={"result": str})
def test_echo(input: str) -> Iterator[tuple[str]]:
    """Return the parameter."""
    yield (input,)


@app.table_function(columns={"result": str})
def test_repeat(input: str, count: Annotated[int, pa.int32()]) -> Iterator[dict[str, list[str]]]:
    """Return the parameter in many batches."""
    for _ in range(count):
        yield {"result": [input]}


@app.table_function(columns=WIDE)
def test_wide(count: Annotated[int, pa.int32()]) -> Iterator[tuple[int, ...]]:
    """Return many columns."""
    for _ in range(count):
        yield tuple(range(20))


@app.table_function(columns=lambda input: {"input": input.type})
def test_dynamic_schema(input: Any) -> dict[str, pa.Array]:
    """Return the parameter in its own type."""
    return {"input": pa.array([input.as_py()], input.type)}


@app.table_function(columns=lambda input: {"name": str, "location": str, "input": input.type, "city": str})
def test_dynamic_schema_named_parameters(
    name: str,
    input: Any,
    city: str,
    *,
    location: str | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Return all parameters."""
    yield name, location, input.as_py(), city


@app.table_in_out(columns=lambda table: {"input": str, table.names[0]: table.types[0]})
def test_table_in_out(input: str, table: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Return the parameter beside each row, and one more row at the end."""
    for batch in table:
        for value in batch.column(0).to_pylist():
            yield input, value
    yield "last", "row"


@app.table_in_out()
def test_table_in_out_long(table: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return each batch ten times."""
    return [table] * 10


@app.table_in_out(columns=WIDE)
def test_table_in_out_wide(input: str, table: pa.RecordBatch) -> Iterator[tuple[int, ...]]:
    """Return many columns for each row."""
    del input
    for _ in range(table.num_rows):
        yield tuple(range(20))


@app.table_in_out()
def test_table_in_out_echo(table: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the table."""
    return table
