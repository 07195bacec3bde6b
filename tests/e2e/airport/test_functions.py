"""The example's functions, and how DuckDB calls functions at all."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkport import App, Server
from sparkport.catalog import ANY, ScanOptions

from .client import DuckDB, Step

EXAMPLE = Path(__file__).parents[3] / "examples" / "functions.py"
SOME_ID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
Numbers = Annotated[pa.Array, pa.int64()]


def example() -> ModuleType:
    """Load the example afresh."""
    spec = importlib.util.spec_from_file_location("functions_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["functions_example"] = module
    spec.loader.exec_module(module)
    return module


def test_the_example_works_as_it_says(duckdb: DuckDB, tmp_path: Path) -> None:
    """Every function, table and action of the example answers, and the example is short."""
    cities = tmp_path / "cities.csv"
    cities.write_text("city,people\nRome,3\nOslo,1\n")
    with Server(example().app, port=0, grace_seconds=1.0) as server:
        rows = duckdb.ask(
            server,
            "SELECT db.text.shout(x), db.text.join_all(x, 'b', x) FROM (VALUES ('a'), (NULL)) t(x)",
            "SELECT db.text.join_all('a'), db.text.type_name([1]), db.text.type_name({'a': 'x'})",
            "SELECT db.numbers.add(1, 2), db.numbers.add(1::DOUBLE) BETWEEN 1 AND 2",
            "FROM db.numbers.squares(2)",
            "SELECT square FROM db.numbers.squares(3, 10, step := 2) WHERE n > 10",
            "SELECT b FROM db.app.matrix(['a', 'b'], 2)",
            "FROM db.app.every_nth(1000, (FROM range(5000)))",
            "FROM db.app.count_nulls((SELECT r, nullif(r % 2, 0) AS n FROM range(5000) t(r)))",
            'SELECT age("at") < INTERVAL 2 DAY FROM db.app.clock',
            "SELECT asked FROM db.app.clock AT (TIMESTAMP => '2024-01-02')",
            f"SET file_search_path = '{tmp_path}'",
            "SELECT city FROM db.app.cities WHERE people = 1",
            f"CALL airport_action('{server.location}', 'create_database', 'more')",
            f"ATTACH 'more' (TYPE airport, LOCATION '{server.location}')",
            "CREATE SCHEMA more.s",
            "CREATE TABLE more.s.t AS SELECT * FROM more.numbers.squares(3)",
            "SELECT more.numbers.add(n, square) FROM more.s.t",
        )

    assert rows[:10] == [
        [["A", "a b a"], [None, "b"]],
        [["a", "list<l: int32>", "struct<a: string>"]],
        [[3, True]],
        [[0, 0], [1, 1]],
        [[144], [196]],
        [[0.0], [1.0]],
        [[0], [1000], [2000], [3000], [4000]],
        [["r", 0], ["n", 2500]],
        [[True]],
        [["2024-01-02"]],
    ]
    assert rows[11] == [["Oslo"]]
    assert rows[12] == [[b"lakehouse more".hex()]]
    assert rows[16] == [[0], [2], [6]]
    assert len(EXAMPLE.read_text().splitlines()) <= 100


class Seen:
    """What the functions below were called with."""

    batches: list[int]
    columns: list[tuple[str, ...] | None]
    closed: int


SEEN = Seen()


def calls() -> App:
    """Declare functions that keep a record of how they are called."""
    SEEN.batches, SEEN.columns, SEEN.closed = [], [], 0
    app = App(schema="f")
    app.scalar_function()(plus)
    app.scalar_function(name="plus")(plus_text)
    app.scalar_function(parameters={"v": ANY}, returns=str)(kind)
    app.scalar_function(parameters={"v": bool}, returns=bool)(negated)
    app.scalar_function(parameters={"v": pa.uuid()}, returns=pa.uuid())(same)
    app.scalar_function(parameters={"v": pa.struct([("a", pa.list_(pa.int64()))])}, returns=list[int])(inner)
    app.scalar_function(stability="volatile")(counted)
    app.scalar_function()(failing)
    app.table_function(columns={"n": int, "text": str})(endless)
    app.table_in_out(columns=lambda rows: rows)(passed)
    app.table_in_out(columns={"rows": int})(counting)
    app.table_in_out()(failing_rows)
    return app


def plus(a: Numbers, b: Numbers) -> Numbers:
    """Add."""
    SEEN.batches.append(len(a))
    return pc.add(a, b)


def plus_text(a: Annotated[pa.Array, pa.string()], b: Numbers) -> Annotated[pa.Array, pa.string()]:
    """Append a number."""
    return pc.binary_join_element_wise(a, b.cast(pa.string()), "")


def kind(v: pa.Array) -> list[str]:
    """Tell the type."""
    return [str(v.type)] * len(v)


def negated(v: pa.Array) -> pa.Array:
    """Negate."""
    return pc.invert(v)


def same(v: pa.Array) -> pa.Array:
    """Return the argument."""
    return v


def inner(v: pa.Array) -> pa.Array:
    """Return the list in a struct."""
    return pc.struct_field(v, 0)


def counted(a: Numbers) -> Numbers:
    """Return how many rows came with each."""
    return pa.array([len(a)] * len(a), pa.int64())


def failing(a: Numbers) -> Numbers:
    """Fail."""
    raise ZeroDivisionError(f"no {len(a)}")


def endless(start: int, options: ScanOptions) -> Iterator[dict[str, Any]]:
    """Count for ever."""
    SEEN.columns.append(options.columns)
    try:
        while True:
            yield {"n": range(start, start + 1000), "text": ["x" * 100] * 1000}
            start += 1000
    finally:
        SEEN.closed += 1


def passed(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the table."""
    yield from rows


def counting(times: int, rows: Iterator[pa.RecordBatch], *, plus: int = 1) -> Iterator[tuple[int]]:
    """Count rows, at the end."""
    yield (sum(batch.num_rows for batch in rows) * times + plus,)


def failing_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Fail on a full batch."""
    raise ValueError(f"{rows.num_rows} rows")


def test_scalar_functions_get_whole_batches_of_the_declared_types(duckdb: DuckDB) -> None:
    """Columns, constants, NULLs, overloads, any and nested types, whatever layout DuckDB is set to send."""
    values = (
        "SELECT sum(db.f.plus(r, 1)) FROM range(10000) t(r)",
        "SELECT sum(db.f.plus(r, 1)) FROM range(4096) t(r)",
        "SELECT db.f.plus(1, NULL), db.f.plus(1::TINYINT, 2), db.f.plus('a', 1)",
        "SELECT db.f.plus(x, 1) FROM (VALUES (1), (NULL)) t(x) WHERE db.f.plus(x, 1) = 2",
        "SELECT db.f.negated(x) FROM (VALUES (true), (NULL), (false), (true)) t(x)",
        f"SELECT db.f.same(x::UUID)::VARCHAR FROM (VALUES ('{SOME_ID}'), (NULL)) t(x)",
        "SELECT db.f.inner({'a': x}) FROM (VALUES ([1, 2]), (NULL), ([])) t(x)",
        "SELECT max(db.f.counted(r)) FROM range(5000) t(r)",
        "SELECT db.f.kind(1::UTINYINT), db.f.kind(DATE '2024-01-01')",
    )
    with Server({"lake": calls().build()}, port=0, grace_seconds=1.0) as server:
        usual = duckdb.ask(server, *values)
        lossless = duckdb.ask(server, "SET arrow_lossless_conversion = true", *values)[1:]
        failed = duckdb.attempt(server, "SELECT db.f.failing(r) FROM range(3) t(r)", values[2])
        shown = duckdb.ask(
            server,
            "SELECT parameter_types, return_type, stability, description FROM duckdb_functions()"
            " WHERE schema_name = 'f' AND function_name IN ('plus', 'counted', 'negated') ORDER BY ALL",
        )

    assert usual == [
        [[50005000]],
        [[8390656]],
        [[None, 3, "a1"]],
        [[2]],
        [[False], [None], [True], [False]],
        [[SOME_ID], [None]],
        [[[1, 2]], [None], [[]]],
        [[2048]],
        [["uint8", "date32[day]"]],
    ]
    assert lossless == usual
    assert max(SEEN.batches) == 2048
    assert "function 'f.failing' failed: ZeroDivisionError: no 3 (trace id" in (failed[0].error or "")
    assert failed[1].rows == [[None, 3, "a1"]]
    assert shown[0][0][:3] == [["ANY"], "BOOLEAN", "CONSISTENT"]
    assert [["BIGINT"], "BIGINT", "VOLATILE"] in [row[:3] for row in shown[0]]


def test_table_function_is_stopped_when_duckdb_has_enough(duckdb: DuckDB) -> None:
    """LIMIT ends an endless function; columns are hinted at; functions join like tables."""
    with Server({"lake": calls().build()}, port=0, grace_seconds=1.0) as server:
        rows = duckdb.ask(
            server,
            "SELECT n FROM db.f.endless(5) LIMIT 2",
            "SELECT text, n FROM db.f.endless(0) WHERE n > 6 LIMIT 1",
            Step("SELECT 1", pause_before=1.0),
        )

    assert rows[:2] == [[[5], [6]], [["x" * 100, 7]]]
    assert SEEN.columns == [("n",), ("n", "text")]
    assert SEEN.closed == 2


def test_functions_of_tables_pass_batches_of_every_size(duckdb: DuckDB) -> None:
    """No number of rows makes the client wait for ever, and what comes at the end arrives."""
    sizes = (0, 1, 2047, 2048, 2049, 4096, 5000)
    with Server({"lake": calls().build()}, port=0, grace_seconds=1.0) as server:
        rows = duckdb.ask(
            server,
            *(f"SELECT count(*), sum(r) FROM db.f.passed((FROM range({size}) t(r)))" for size in sizes),
            *(f"FROM db.f.counting(10, NULL, (FROM range({size})))" for size in sizes),
            "FROM db.f.counting(1, 7, (SELECT 1))",
            "SELECT r FROM db.f.passed((SELECT r, 'x' AS s FROM range(9000) t(r))) WHERE r = 4095",
            "SELECT count(*) FROM (FROM db.f.passed((FROM range(100000))) LIMIT 3)",
        )
        (failed,) = duckdb.attempt(server, "FROM db.f.failing_rows((FROM range(5000)))")

    total = [sum(range(size)) if size else None for size in sizes]
    assert rows[:7] == [[[size, number]] for size, number in zip(sizes, total, strict=True)]
    assert rows[7:14] == [[[size * 10 + 1]] for size in sizes]
    assert rows[14:] == [[[8]], [[4095]], [[3]]]
    assert "function 'f.failing_rows' failed: ValueError: 2048 rows" in (failed.error or "")
