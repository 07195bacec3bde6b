"""Your own functions, tables and actions: `sparkport serve --app functions:app`, or run this file."""

import datetime as dt
from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

import sparkport
from sparkport.catalog import ANY, ClientCall, ScanOptions
from sparkport.memory import MemoryCatalog

Texts = Annotated[pa.Array, pa.string()]
Numbers = Annotated[pa.Array, pa.int64()]
app = sparkport.App()


@app.scalar_function(schema="text")
def shout(words: Texts) -> Texts:
    """Write in capitals: a whole column at once."""
    return pc.utf8_upper(words)


@app.scalar_function(schema="text")
def join_all(*words: Texts) -> Texts:
    """Join any number of texts."""
    return pc.binary_join_element_wise(*words, " ", null_handling="skip")


@app.scalar_function(schema="text", parameters={"value": ANY}, returns=str)
def type_name(value: pa.Array) -> list[str]:
    """Tell the Arrow type of anything."""
    return [str(value.type)] * len(value)


@app.scalar_function(schema="numbers")
def add(a: Numbers, b: Numbers) -> Numbers:
    """Add two numbers."""
    return pc.add_checked(a, b)


@app.scalar_function(schema="numbers", name="add", stability="volatile")
def add_noise(number: Annotated[pa.Array, pa.float64()]) -> Annotated[pa.Array, pa.float64()]:
    """Add something below one to a number: the same name, other parameters."""
    return pc.add(number, pc.random(len(number)))


@app.table_function(schema="numbers", columns={"n": int, "square": int})
def squares(count: int, start: int = 0, *, step: int = 1) -> Iterator[tuple[int, int]]:
    """Count and square; `start` is optional, `step` is given by name."""
    for n in range(start, start + count * step, step):
        yield n, n * n


@app.table_function(columns=lambda names: dict.fromkeys(names, float))
def matrix(names: list[str], rows: int, options: ScanOptions) -> dict[str, list[float]]:
    """Make columns of the given names, and compute only those that are asked for."""
    return {name: [float(row) for row in range(rows)] for name in options.columns or names}


@app.table_in_out()
def every_nth(nth: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep every nth row of a table."""
    seen = 0
    for batch in rows:
        yield batch.take(pa.array(range(-seen % nth, batch.num_rows, nth), pa.int64()))
        seen += batch.num_rows


@app.table_in_out(columns={"column": str, "nulls": int})
def count_nulls(rows: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int]]:
    """Count nulls by column, and tell at the end."""
    counts: dict[str, int] = {}
    for batch in rows:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            counts[name] = counts.get(name, 0) + column.null_count
    yield from counts.items()


@app.table(columns=lambda request: {"at": dt.datetime} | ({"asked": str} if request.time_point else {}))
def clock(options: ScanOptions) -> dict[str, list[object]]:
    """Tell the time, and beside it the one that AT (TIMESTAMP => ...) asked for."""
    now: dict[str, list[object]] = {"at": [dt.datetime.now(dt.UTC).replace(tzinfo=None)]}
    return now | ({"asked": [options.time_point.value]} if options.time_point else {})


csv = ClientCall("read_csv", ("cities.csv",), {"header": True})
app.add_reference("cities", csv, columns={"city": str, "people": int})  # DuckDB reads the file


@app.action("create_database")
def create_database(body: bytes) -> bytes:
    """Make an empty database with these functions in it, and list all."""
    app.catalogs.add(body.decode(), app.over(MemoryCatalog()))
    return b" ".join(name.encode() for name, _ in app.catalogs.items())


if __name__ == "__main__":
    sparkport.Server(app, authenticate=False).serve()
