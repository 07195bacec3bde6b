"""What can be declared, and what is refused when it is declared, not when it is called."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Optional

import pyarrow as pa
import pytest

from sparkport import App
from sparkport.app.user_code.batches import batches_of
from sparkport.app.user_code.declarations import arrow_type
from sparkport.catalog import ANY, TABLE, Call, ClientCall, CreateSchemaOptions, ScanOptions, Stability
from sparkport.errors import AlreadyExistsError
from sparkport.memory import MemoryCatalog

COLUMNS = pa.schema([("n", pa.int64()), ("s", pa.string())])


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (pa.int8(), pa.int8()),
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (bytes, pa.binary()),
        (dt.date, pa.date32()),
        (dt.time, pa.time64("us")),
        (dt.datetime, pa.timestamp("us")),
        (uuid.UUID, pa.uuid()),
        (list[int], pa.list_(pa.int64())),
        (str | None, pa.string()),
        (Optional[int], pa.int64()),  # noqa: UP045 - the older spelling is understood too
        (Annotated[int, pa.uint8()], pa.uint8()),
        (Any, ANY),
        (pa.RecordBatch, TABLE),
        (Iterator[pa.RecordBatch], TABLE),
    ],
)
def test_annotation_means_a_type(annotation: object, expected: object) -> None:
    """Arrow types, Python's and combinations of them are understood."""
    assert arrow_type(annotation) == expected


def untyped(a) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001, D103
    return int(a)


def unknown(a: complex) -> int:  # noqa: D103
    raise NotImplementedError


def without_result(a: int):  # type: ignore[no-untyped-def]  # noqa: ANN201, D103
    raise NotImplementedError


def optional(a: int = 1) -> int:  # noqa: D103
    raise NotImplementedError


def by_name(*, a: int) -> int:  # noqa: D103
    raise NotImplementedError


def needs_options(a: int, options: ScanOptions) -> int:  # noqa: D103
    raise NotImplementedError


def nothing() -> int:  # noqa: D103
    raise NotImplementedError


def of_table(rows: Iterator[pa.RecordBatch]) -> int:  # noqa: D103
    raise NotImplementedError


def named_any(a: int, *, b: Any) -> int:  # noqa: D103
    raise NotImplementedError


def reserved(a: int, *, ticket: str = "") -> int:  # noqa: D103
    raise NotImplementedError


def no_table(a: int) -> int:  # noqa: D103
    raise NotImplementedError


def table_first(rows: pa.RecordBatch, a: int) -> int:  # noqa: D103
    raise NotImplementedError


def keywords(a: int, **more: int) -> int:  # noqa: D103
    raise NotImplementedError


@pytest.mark.parametrize(
    ("declare", "function", "message"),
    [
        (App().scalar_function(), untyped, "parameter 'a' of 'untyped' needs a type"),
        (App().scalar_function(), unknown, "parameter 'a' of 'unknown': no Arrow type corresponds to"),
        (App().scalar_function(), without_result, "the result of 'without_result' needs a type"),
        (App().scalar_function(), optional, "a scalar function has positional parameters without defaults"),
        (App().scalar_function(), by_name, "a scalar function has positional parameters without defaults"),
        (App().scalar_function(), needs_options, "no Arrow type corresponds to .*ScanOptions"),
        (App().scalar_function(), nothing, "a function needs at least one parameter"),
        (App().scalar_function(), of_table, "parameter 'rows' of 'of_table': a scalar function"),
        (App().scalar_function(returns=Any), no_table, "is not the type of a value"),
        (App().scalar_function(stability="now and then"), no_table, "is not a valid Stability"),
        (App().scalar_function(schema="main"), no_table, "DuckDB cannot look up a schema named 'main'"),
        (App().table_function(columns=COLUMNS), nothing, "declare it as a table"),
        (App().table_function(columns=COLUMNS), of_table, "declare it with table_in_out"),
        (App().table_function(columns=COLUMNS), named_any, "parameter 'b' of 'named_any'.* cannot be named"),
        (App().table_function(columns=COLUMNS), reserved, "DuckDB reserves this name"),
        (App().table_function(columns=COLUMNS), keywords, "parameter 'more' of 'keywords' needs a type"),
        (App().table_function(columns=["n"]), no_table, "columns are a pyarrow.Schema or a mapping"),
        (App().table_function(columns=lambda b: b), no_table, "depend on 'b', which is not a parameter"),
        (App().table_in_out(), no_table, "needs one parameter of type Iterator"),
        (App().table_in_out(), table_first, "a function takes one table, as the last"),
        (App().table(columns=COLUMNS), no_table, "declare it with table_function"),
    ],
)
def test_what_cannot_be_called_is_refused_when_it_is_declared(
    declare: Callable[[Any], Any], function: Callable[..., Any], message: str
) -> None:
    """The sentence names the function or the parameter, and what to do."""
    with pytest.raises((TypeError, ValueError), match=message):
        declare(function)


def test_names_are_unique_where_they_must_be() -> None:
    """Tables and actions have one name each, and a function of a table shares its with no other."""
    app = App()
    app.add_table(pa.table({"n": [1]}), name="t")
    app.action("a")(lambda body: body)
    app.table_function(columns=COLUMNS, name="f")(no_table)

    with pytest.raises(ValueError, match="table 'T' already exists"):
        app.add_table(pa.table({"n": [1]}), name="T")
    with pytest.raises(ValueError, match="action 'a' already exists"):
        app.action("a")(lambda body: body)
    with pytest.raises(ValueError, match="'F': a function that takes a table cannot be overloaded"):
        app.table_in_out(name="F")(of_table)
    with pytest.raises(ValueError, match="needs a call to refer to"):
        app.add_reference("r", columns={"n": int})
    with pytest.raises(ValueError, match="needs a name"):
        app.add_reference("", ClientCall("read_csv"), columns={"n": int})


def test_declared_function_stays_a_function_and_is_built_into_a_catalog() -> None:
    """Decorators give the function back; the catalog has it with its documentation."""
    app = App()
    app.schema("text", comment="Words")

    @app.scalar_function(schema="TEXT", stability="volatile")
    def twice(a: str) -> str:
        """Say it twice.

        The rest is for readers of the code.
        """
        return a + a

    schema = app.build().schema(Call(), "text")
    assert schema is not None
    (function,) = schema.scalar_functions(Call())

    assert twice("x") == "xx"
    assert (schema.comment, function.name, function.comment) == ("Words", "twice", "Say it twice.")
    assert function.signature.return_type == pa.string()
    assert function.signature.stability is Stability.VOLATILE


def test_name_of_an_engines_schema_is_taken() -> None:
    """An app whose schema the engine has already is refused when both are put together."""
    app = App(schema="Sales")
    app.add_table(pa.table({"n": [1]}), name="t")
    engine = MemoryCatalog()
    app.over(engine)
    engine.create_schema(Call(), "sales", CreateSchemaOptions())

    with pytest.raises(AlreadyExistsError, match="schema 'Sales' already exists"):
        app.over(engine)


@pytest.mark.parametrize(
    "result",
    [
        pa.table({"s": ["a", "b"], "n": pa.array([1, 2], pa.int8())}),
        pa.record_batch({"n": [1, 2], "s": ["a", "b"]}),
        {"n": [1, 2], "s": ["a", "b"]},
        [(1, "a"), (2, "b")],
        iter([pa.table({"n": [1], "s": ["a"]}), (2, "b")]),
        [(1, "a"), {"n": [2], "s": ["b"]}],
        pa.table({"n": [1, 2], "s": ["a", "b"]}).to_reader(),
    ],
)
def test_rows_may_come_in_any_shape(result: object) -> None:
    """Arrow data, mappings of columns and tuples all become batches of the announced columns."""
    found = pa.Table.from_batches(list(batches_of(result, COLUMNS, None)), COLUMNS)

    assert found.to_pylist() == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]


def test_columns_that_nobody_asked_for_may_be_missing() -> None:
    """A hint at the columns may be followed, and what is missing is null."""
    (batch,) = batches_of({"s": ["a"]}, COLUMNS, ("s",))

    assert batch.to_pylist() == [{"n": None, "s": "a"}]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"n": [1]}, "the column 's' is missing"),
        ({"n": [1], "s": ["a"], "t": [1]}, "the column 't' was not declared"),
        ({"n": ["x"], "s": ["a"]}, "the column 'n' is of type string instead of int64"),
        ([(1,)], "a row has 1 values for 2 columns"),
        ([1], "a int is neither Arrow data nor a mapping of columns nor a tuple"),
    ],
)
def test_rows_of_other_columns_are_refused(result: object, message: str) -> None:
    """What a function yields has the columns that were announced."""
    with pytest.raises(TypeError, match=message):
        list(batches_of(result, COLUMNS, None))
