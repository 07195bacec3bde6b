"""How functions and their parameters look on the wire."""

from __future__ import annotations

import contextlib
import random

import pyarrow as pa
import pytest

from sparkport.catalog import ANY, TABLE, FunctionSignature, Parameter
from sparkport.catalog.lookup import TablePath
from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol import descriptor
from sparkport.protocol.airport.functions import forms, result_schema
from sparkport.protocol.descriptor import FunctionAddress, FunctionKind
from sparkport.protocol.ipc import arrow_row
from sparkport.protocol.schemas import NoDuckDBTypeError

N = Parameter("n", pa.int64())
SCALAR, TABLE_FUNCTION = FunctionKind.SCALAR, FunctionKind.TABLE


def names(kind: FunctionKind, signature: FunctionSignature) -> list[list[str]]:
    """Return the parameters of each form."""
    return [[one.name for one in form.parameters] for form in forms(kind, signature)]


def test_each_number_of_parameters_is_a_form() -> None:
    """Optional, repeated and named parameters become forms, of which a function of a table has one."""
    start, step = Parameter("start", pa.int64(), default=0), Parameter("step", pa.int64(), True, 1)
    optional = FunctionSignature((N, step, start))
    variadic = FunctionSignature((N,), pa.int64(), variadic=True)
    of_table = FunctionSignature((N, step, Parameter("rows", TABLE)))

    assert names(TABLE_FUNCTION, optional) == [["n", "step"], ["n", "start", "step"]]
    assert names(SCALAR, variadic)[:3] == [["n"], ["n", "n_2"], ["n", "n_2", "n_3"]]
    assert len(names(SCALAR, variadic)) == 8
    assert names(TABLE_FUNCTION, of_table) == [["n", "step", "rows"]]
    tags = [form.tag() for signature in (optional, of_table) for form in forms(TABLE_FUNCTION, signature)]
    assert len(set(tags)) == 3


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.time32("s"), pa.time64("us")),
        (pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC")),
        (pa.decimal64(10, 2), pa.decimal128(10, 2)),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_(pa.int8(), 3), pa.list_(pa.int8(), 3)),
        (pa.struct([("a", pa.date64())]), pa.struct([("a", pa.date32())])),
        (pa.bool_(), None),
        (pa.uuid(), None),
        (pa.list_(pa.bool_()), None),
        (pa.struct([("a", pa.uuid())]), None),
        (pa.map_(pa.string(), pa.int64()), None),
        (pa.float16(), None),
        (ANY, None),
    ],
)
def test_arguments_are_announced_as_duckdb_exports_them(
    declared: pa.DataType, shown: pa.DataType | None
) -> None:
    """The client sends its own layout; where that depends on its settings it is told any type."""
    (form,) = forms(SCALAR, FunctionSignature((Parameter("v", declared),), pa.int64()))
    field = form.input_schema().field("v")
    any_type = (field.metadata or {}).get(b"is_any_type") == b"1"

    assert (None if any_type else field.type) == shown


def test_result_is_of_a_type_that_duckdb_reads() -> None:
    """A dictionary is announced as its values, and what DuckDB has no type for is refused."""
    assert result_schema(FunctionSignature((N,), pa.dictionary(pa.int8(), pa.string()))) == pa.schema(
        [("result", pa.string())]
    )
    with pytest.raises(NoDuckDBTypeError):
        result_schema(FunctionSignature((N,), pa.decimal256(60, 0)))


@pytest.mark.parametrize("name", ["f", "größe", "a/b", " f "])
def test_function_of_any_name_is_addressed(name: str) -> None:
    """A descriptor that the server made is understood again, whatever the name."""
    address = FunctionAddress(TablePath("db", "s", name), SCALAR, "form")

    assert descriptor.decode(descriptor.encode(address)) == address


def packed(batch: pa.RecordBatch) -> bytes:
    """Return an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def test_parameters_are_one_row_of_whatever() -> None:
    """Nested values and dictionaries are read; other numbers of rows are refused."""
    row = pa.record_batch({"l": [[1, 2]], "s": [{"a": "x"}], "d": pa.array(["y"]).dictionary_encode()})

    assert arrow_row.decode(packed(row)).to_pylist() == [{"l": [1, 2], "s": {"a": "x"}, "d": "y"}]
    for other in (row.slice(0, 0), pa.record_batch({"n": [1, 2]})):
        with pytest.raises(InvalidRequestError, match=r"^the parameters of a function must be one row$"):
            arrow_row.decode(packed(other))


def test_damaged_parameters_are_refused_and_nothing_else_happens() -> None:
    """Whatever bytes come, the answer is a row or an error of ours."""
    good = packed(pa.record_batch({"l": [[1, 2]], "s": ["text"], "d": pa.array(["y"]).dictionary_encode()}))
    dice = random.Random(7)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        with contextlib.suppress(InvalidRequestError, LimitExceededError):
            arrow_row.decode(bytes(data[: dice.randint(len(data) // 2, len(data))]))
