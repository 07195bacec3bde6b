from __future__ import annotations

import datetime as dt
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sparkport import expressions
from sparkport.catalog import Call
from sparkport.errors import CancelledError, DeadlineExceededError, InvalidRequestError, LimitExceededError
from sparkport.expressions import Constraint, evaluation, sandbox, turns, worker
from sparkport.expressions.functions import ALLOWED, ANY_SIZE, QUICK

ROWS = pa.table({"a": [1, 2, None], "odd name": ["x", "y", "z"], "s": [{"x": 1}, {"x": 2}, None]})
# Minutes for one row, in which DuckDB looks for no interrupt.
LONG = pa.table({"t": ["xy" * 200_000]})
SLOW = "levenshtein(t || 'a', t || 'b') > 0"


def evaluated(expression: str, rows: pa.Table = ROWS) -> list[object]:
    """Return the values of an expression."""
    values: list[object] = expressions.evaluate(Call(), expression, rows).to_pylist()
    return values


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("a + 1", [2, 3, None]),
        ("A > 1", [False, True, None]),
        ("\"odd name\" || '!'", ["x!", "y!", "z!"]),
        ("s.x * 2", [2, 4, None]),
        ("s['x']", [1, 2, None]),
        ("42", [42, 42, 42]),
        ("CASE WHEN a IS NULL THEN 'none' ELSE 'some' END", ["some", "some", "none"]),
        ("list_transform([a], x -> x + 1)", [[2], [3], [None]]),
        ("a /* a comment */ -- and another", [1, 2, None]),
        ("(a)", [1, 2, None]),
    ],
)
def test_expression_has_a_value_for_each_row(expression: str, values: list[object]) -> None:
    """Expressions are DuckDB's SQL over the columns of a row."""
    assert evaluated(expression) == values


def test_no_rows_give_no_values() -> None:
    """An expression is checked against columns alone."""
    assert evaluated("a + 1", ROWS.slice(0, 0)) == []


def test_columns_that_are_not_read_do_not_matter() -> None:
    """A type that DuckDB does not know is no trouble elsewhere in the row."""
    rows = ROWS.append_column("h", pa.array([1.0, 2.0, 3.0], pa.float16()))

    assert evaluated("a", rows) == [1, 2, None]
    with pytest.raises(InvalidRequestError, match="failed"):
        evaluated("h > 0", rows)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "a +",
        "nonsense(",
        "nothing + 1",
        "no_such_function(a)",
        "a; DROP TABLE rows",
        "1) FROM range(3) --",
        "1) --",
        "1) WHERE (true",
        "1) LIMIT (1",
        "1) GROUP BY (1",
        "a) UNION SELECT (1",
        "(SELECT 1)",
        "a IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "sum(a)",
        "count(*)",
        "row_number() OVER ()",
        "*",
        "COLUMNS(*)",
        "rows",
        "rows.a",
        "?",
        "$1",
        "DEFAULT",
        "a AS b",
        "unnest([1, 2])",
        "1)\0",
        "a = '\ud800'",
    ],
)
def test_anything_but_one_plain_expression_is_refused(expression: str) -> None:
    """No second statement, no clause, no subquery, no aggregate, no window, no star."""
    with pytest.raises(InvalidRequestError):
        evaluated(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "read_text('/etc/passwd')",
        "getenv('HOME')",
        "(SELECT content FROM read_text('/etc/passwd'))",
        "1) FROM read_csv('/etc/passwd'",
        "(SELECT * FROM '/etc/passwd')",
        "(SELECT * FROM duckdb_settings())",
    ],
)
def test_files_and_the_environment_are_out_of_reach(expression: str) -> None:
    """An expression sees its row and nothing else."""
    with pytest.raises(InvalidRequestError):
        evaluated(expression)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/never.csv'",
        "ATTACH '/tmp/never.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET memory_limit = '100GB'",
    ],
)
def test_sandbox_holds_even_for_whole_statements(statement: str) -> None:
    """Should an expression ever escape the parser, the database below has nothing to give."""
    with worker.open_sandbox(megabytes=100) as connection, pytest.raises(duckdb.Error):
        connection.execute(statement)


def test_python_variables_are_out_of_reach() -> None:
    """DuckDB's replacement scans do not find the server's own tables."""
    secret = pa.table({"password": ["x"]})
    assert len(secret) == 1

    with worker.open_sandbox(megabytes=100) as connection, pytest.raises(duckdb.Error):
        connection.execute("SELECT * FROM secret")


def test_error_names_the_expression_and_the_reason() -> None:
    """The person at the client learns what was wrong, in one line."""
    with pytest.raises(InvalidRequestError) as caught:
        evaluated("a + 'text'")
    message = str(caught.value)
    assert message.startswith("expression \"a + 'text'\" failed: Conversion Error")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("expression", "value"),
    [("1 + 1", 2), ("'it''s'", "it's"), ("NULL", None), ("[1, 2]", [1, 2]), ("true", True)],
)
def test_constant_reads_no_columns(expression: str, value: object) -> None:
    """A default is evaluated without a row."""
    assert expressions.evaluate_constant(Call(), expression).as_py() == value


def test_constant_that_reads_a_column_is_refused() -> None:
    """There is no row to read it from."""
    with pytest.raises(InvalidRequestError, match=r"^expression 'a \+ 1' must not refer to columns$"):
        expressions.evaluate_constant(Call(), "a + 1")


@pytest.mark.parametrize("expression", ["count(*)", "sum(1)", "(SELECT 1)", "1) --"])
def test_constant_is_a_plain_expression_too(expression: str) -> None:
    """An aggregate over one row would look like a constant."""
    with pytest.raises(InvalidRequestError):
        expressions.evaluate_constant(Call(), expression)


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("a + B", {"a", "b"}),
        ('"Odd Name" > 0', {"odd name"}),
        ("s.x.y > 0", {"s"}),
        ("list_filter(l, x -> x > a)", {"l", "a"}),
        ("list_filter(l, lambda x: x > a)", {"l", "a"}),
        ("list_reduce(l, (x, y) -> x + y)", {"l"}),
        ("x + list_sum(list_transform(l, x -> x + 1))", {"x", "l"}),
        ("(j -> '$.a') = '1'", {"j"}),
        ("(j -> k) = '1'", {"j", "k"}),
        ("1", set()),
        ("'a'", set()),
    ],
)
def test_referenced_columns_are_found(expression: str, columns: set[str]) -> None:
    """Fields of structs and parameters of lambdas are not columns."""
    assert expressions.referenced_columns(expression) == columns


@pytest.mark.parametrize(
    ("expression", "renamed"),
    [
        ("a > 0", "(b > 0)"),
        ("A + a", "(b + b)"),
        ("s.a > 0", "(s.a > 0)"),
        ("a.a > 0", "(b.a > 0)"),
        ("x = 'a'", "(x = 'a')"),
    ],
)
def test_column_is_renamed_where_it_is_meant(expression: str, renamed: str) -> None:
    """Texts and fields of that name stay."""
    assert expressions.rename_column(expression, "a", "b") == renamed


def test_new_name_is_quoted() -> None:
    """A name that needs quotes gets them."""
    renamed = expressions.rename_column("a > 0", "a", 'the "new" one')

    assert renamed == '("the ""new"" one" > 0)'
    assert expressions.referenced_columns(renamed) == {'the "new" one'}


SCHEMA = pa.schema(
    [("a", pa.int64()), ("B b", pa.string()), ("h", pa.float16()), ("l", pa.list_(pa.float16()))]
)


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("UNIQUE (a)", Constraint("UNIQUE", ("a",))),
        ('unique(A, "b B")'.replace("b B", "b b"), Constraint("UNIQUE", ("a", "B b"))),
        ("PRIMARY KEY (a)", Constraint("PRIMARY KEY", ("a",))),
        ("CHECK (a > 0)", Constraint("CHECK", ("a",), "(a > 0)")),
        ("CONSTRAINT positive CHECK (a > 0)", Constraint("CHECK", ("a",), "(a > 0)")),
        ("UNIQUE (h)", Constraint("UNIQUE", ("h",))),
    ],
)
def test_constraint_is_taken_apart(text: str, constraint: Constraint) -> None:
    """Columns come in the spelling of the table, whatever their types."""
    assert expressions.parse_constraint(text, SCHEMA) == constraint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "UNIQUE (nothing)",
        "UNIQUE (a), UNIQUE (h)",
        "CHECK (nothing > 0)",
        "CHECK (a > (SELECT 1))",
        "CHECK (sum(a) > 0)",
        "FOREIGN KEY (a) REFERENCES other (a)",
        "c INTEGER",
        "c INTEGER UNIQUE",
        "c INTEGER CHECK (c > 0)",
        "UNIQUE (a)) --",
        "UNIQUE (a)); DROP TABLE probe; --",
        "CHECK (true)); COPY (SELECT 1) TO '/tmp/never.csv'; --",
    ],
)
def test_anything_but_one_constraint_is_refused(text: str) -> None:
    """No second constraint, no column, no second statement."""
    with pytest.raises(InvalidRequestError):
        expressions.parse_constraint(text, SCHEMA)


@pytest.mark.parametrize(
    ("name", "quoted"), [("a", '"a"'), ('a"b', '"a""b"'), ("", '""'), ('"; --', '"""; --"')]
)
def test_identifiers_are_quoted(name: str, quoted: str) -> None:
    """A quote is doubled."""
    assert expressions.quote(name) == quoted


def test_cancelled_call_evaluates_nothing() -> None:
    """A client that is gone does not start work."""
    call = Call()
    call.cancel()

    with pytest.raises(CancelledError):
        expressions.evaluate(call, "a", ROWS)


def test_cancellation_stops_a_running_expression() -> None:
    """A long expression ends with its call, as a cancellation."""
    call = Call()
    timer = threading.Timer(0.2, call.cancel)
    timer.start()

    with pytest.raises(CancelledError):
        expressions.evaluate(call, SLOW, LONG)
    timer.join()


def test_deadline_stops_a_running_expression() -> None:
    """A long expression ends with the time of its call."""
    with pytest.raises(DeadlineExceededError):
        expressions.evaluate(Call(timeout=0.2), SLOW, LONG)


def test_cancelling_later_is_harmless() -> None:
    """An expression that is done leaves nothing behind that a cancellation could hit."""
    call = Call()
    expressions.evaluate(call, "a", ROWS)
    seen: list[str] = []
    call.on_cancel(lambda: seen.append("told"))
    call.cancel()

    assert seen == ["told"]


@pytest.mark.parametrize(
    "expression",
    [
        "len(range(1000000000)) > a",
        "repeat('x', 800000000) = 'x'",
        "length(lpad('x', 800000000, 'y')) > a",
        "bitstring('1', 2000000000) IS NULL",
    ],
)
def test_functions_without_bounds_are_refused_before_they_are_computed(expression: str) -> None:
    """DuckDB computes constants when it binds, so that an expression is looked at before."""
    started = time.monotonic()
    with pytest.raises(
        InvalidRequestError, match="cannot be used in an expression: the size of its result is not limited"
    ):
        expressions.evaluate(Call(), expression, pa.table({"a": [1]}))
    with pytest.raises(
        InvalidRequestError, match="cannot be used in an expression: the size of its result is not limited"
    ):
        expressions.parse_constraint(f"CHECK ({expression})", pa.schema([("a", pa.int64())]))
    assert time.monotonic() - started < 5


def nested(function: str, start: str, times: int) -> str:
    """Return calls of a function within each other."""
    return functools.reduce(lambda inner, _: function.format(inner), range(times), start)


GROWING = [
    nested("replace({}, 'x', 'xxxxxxxxxx')", "t", 8) + " = 'y'",
    "list_reduce([" + ", ".join("t" * 30) + "], (x, y) -> x || x || y) = 'y'",
    "len(" + nested("list_transform(split(t, ''), x -> {})", "x", 4) + ") > 0",
]


@pytest.mark.parametrize("expression", GROWING)
def test_memory_of_an_expression_is_bounded(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that would need gigabytes fails for it; the server does not grow, and the next one is evaluated."""
    monkeypatch.setattr(sandbox, "TIME_LIMIT_SECONDS", 120.0)  # memory fills slowly on a busy machine
    rows = pa.table({"t": ["x" * 1000]})
    before = resident_megabytes()

    with pytest.raises(LimitExceededError, match=r"needs more than 512 MB of memory$"):
        expressions.evaluate(Call(), expression, rows)
    assert resident_megabytes() - before < 100
    assert expressions.evaluate(Call(), "length(t)", rows).to_pylist() == [1000]


def resident_megabytes() -> int:
    """Return how much memory this process has."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def test_time_of_an_expression_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would go on for minutes with one value; its process ends."""
    monkeypatch.setattr(sandbox, "TIME_LIMIT_SECONDS", 0.5)
    started = time.monotonic()

    with pytest.raises(LimitExceededError, match=r"took longer than 0\.5 seconds$"):
        expressions.evaluate(Call(), SLOW, LONG)
    assert time.monotonic() - started < 5


def test_many_rows_are_evaluated_in_pieces() -> None:
    """The limits are for some rows at a time, so that a large table is no trouble."""
    rows = pa.table({"a": np.arange(100_001), "t": pa.array(["x" * 300] * 100_001)})

    values = expressions.evaluate(Call(), "a + length(t)", rows)

    assert values.num_chunks > 1
    assert values.to_numpy().tolist() == list(range(300, 100_301))


@pytest.mark.parametrize(
    "expression",
    [
        nested("abs({})", "a", 300),
        nested("NOT {}", "a", 300),
        nested("CASE WHEN a > 0 THEN {} END", "1", 300),
        nested("[{}]", "a", 300),
        " + ".join("a" * 300),
        nested("abs({})", "a", 900),
        nested("abs({})", "a", 3_000),
    ],
    ids=["abs", "not", "case", "list", "sum", "deeper", "deepest"],
)
def test_deep_expression_is_refused(expression: str) -> None:
    """Neither the parser nor the server runs out of stack."""
    with pytest.raises(InvalidRequestError, match=r"is nested deeper than 200 levels$|is not valid"):
        expressions.evaluate(Call(), expression, pa.table({"a": [1]}))


def test_long_expression_is_refused() -> None:
    """A text that takes long to parse is none that people write."""
    with pytest.raises(InvalidRequestError, match=r"x\"\.\.\. is longer than 16384 characters$"):
        expressions.evaluate(Call(), "a = '" + "x" * 17_000 + "'", pa.table({"a": ["x"]}))


def test_value_in_an_error_is_shortened() -> None:
    """DuckDB quotes the value that it cannot convert, whatever its length."""
    with pytest.raises(InvalidRequestError) as caught:
        evaluated("t::INTEGER > 0", pa.table({"t": ["x" * 1_000_000]}))
    assert len(str(caught.value)) < 1200


def test_lambdas_within_lambdas_are_parsed_at_once() -> None:
    """Looking for columns takes no time that doubles with each level."""
    levels = 60
    expression = nested("list_transform(l, x -> {})", "x + a", levels)

    assert expressions.referenced_columns(expression) == {"l", "a"}


@pytest.mark.parametrize(
    "expression",
    [
        "current_setting('home_directory')",
        "pg_catalog.current_setting('temp_directory')",
        "getvariable('x')",
        "getenv('HOME')",
        "version()",
        "current_user",
        "user",
        "current_schemas(true)",
        "current_database()",
        "inet_server_addr()",
        "pg_postmaster_start_time()",
        "nextval('s')",
        "txid_current()",
        "current_query()",
        "json_serialize_plan('SELECT 1')",
        "write_log('x')",
        "duckdb_settings()",
        "pg_get_viewdef(1)",
        "in_search_path('a', 'b')",
        "stats(a)",
    ],
)
def test_machine_and_database_are_out_of_reach(expression: str) -> None:
    """Settings, variables, users, sequences, catalogs: no function tells of them."""
    with pytest.raises(InvalidRequestError, match=r"cannot be used in an expression|unknown column"):
        evaluated(expression)


# Functions of DuckDB that expressions may not call, looked at one by one. Those of a newer version
# are refused too; this list makes sure that somebody looks at them.
REFUSED = ANY_SIZE | {
    "alias",
    "array_to_string_comma_default",
    "can_cast_implicitly",
    "cast_to_type",
    "col_description",
    "combine",
    "constant_or_null",
    "create_sort_key",
    "current_catalog",
    "current_connection_id",
    "current_database",
    "current_query",
    "current_query_id",
    "current_role",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_transaction_id",
    "current_user",
    "currval",
    "equi_width_bins",
    "error",
    "finalize",
    "format_pg_type",
    "format_type",
    "generate_subscripts",
    "geomean",
    "geometric_mean",
    "get_block_size",
    "getvariable",
    "icu_sort_key",
    "in_search_path",
    "inet_client_addr",
    "inet_client_port",
    "inet_server_addr",
    "inet_server_port",
    "is_histogram_other_bin",
    "json_deserialize_sql",
    "json_group_array",
    "json_group_object",
    "json_group_structure",
    "json_serialize_plan",
    "json_serialize_sql",
    "map_to_pg_oid",
    "nextval",
    "obj_description",
    "parse_duckdb_log_message",
    "pg_size_pretty",
    "pg_typeof",
    "regexp_split_to_table",
    "remap_struct",
    "replace_type",
    "session_user",
    "setseed",
    "shobj_description",
    "stats",
    "timetz_byte_comparable",
    "txid_current",
    "unpivot_list",
    "user",
    "variant_extract",
    "variant_typeof",
    "vector_type",
    "version",
    "wavg",
    "weighted_avg",
    "write_log",
}
REFUSED_PREFIXES = ("__internal_", "has_", "icu_collate_", "pg_")


def test_every_function_of_duckdb_is_allowed_or_refused_on_purpose() -> None:
    """A new version of DuckDB cannot add one unseen, and the list has no function that does not exist."""
    with worker.open_sandbox(megabytes=100) as connection:
        found = connection.execute(
            "SELECT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')"
        ).fetchall()
    names = {name for (name,) in found if not name.startswith(REFUSED_PREFIXES)}

    assert not ALLOWED & REFUSED
    assert names - ALLOWED - REFUSED == set()
    # The parser writes these, and resolves them itself.
    assert ALLOWED - names == {"->", "isnull", "overlay"}


@pytest.mark.parametrize(
    "expression",
    [
        "regexp_matches(t, '^[^@]+@[^@]+$')",
        "length(t) < 100",
        "t IN ('a', 'b@c')",
        "d >= DATE '2020-01-01' AND d < current_date + INTERVAL 1 DAY",
        "upper(trim(t)) LIKE 'B%'",
        "len(l) <= 3",
        "list_contains(l, 1)",
        "n BETWEEN 0 AND 100",
        "coalesce(n, 0) % 2 = 1",
        "concat(t, ':', n) <> ''",
        "date_part('year', d) > 2000",
        "n::DECIMAL(10, 2) > 0.5",
        "round(n / 3.0, 2) < 10",
        "CASE WHEN n > 0 THEN t IS NOT NULL ELSE true END",
        "EXTRACT(month FROM d) BETWEEN 1 AND 12",
        "json_valid('{}') AND (l)[1] = 1",
        "strftime(d, '%Y') = '2024'",
        "substring(t, 1, 1) = 'b' AND t ILIKE 'B%' AND t NOT SIMILAR TO 'x.*'",
    ],
)
def test_what_people_write_is_allowed(expression: str) -> None:
    """The list of functions is no trouble to those who mean well."""
    rows = pa.table({"t": ["b@c"], "n": [1], "l": [[1, 2]], "d": [dt.date(2024, 5, 1)]})

    assert evaluated(expression, rows) == [True]


def test_worker_knows_nothing_of_the_servers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should an expression ever get at variables, the token is none of them."""
    monkeypatch.setenv("SPARKPORT_TOKEN", "secret")
    worker_process = sandbox._Worker()
    try:
        variables = Path(f"/proc/{worker_process._process.pid}/environ").read_bytes().split(b"\0")
    finally:
        worker_process.close()

    names = {entry.partition(b"=")[0].decode() for entry in variables if entry}
    assert names <= {"PYTHONPATH", *sandbox._PASSED_VARIABLES}


def test_worker_that_is_gone_is_replaced() -> None:
    """Whoever kills an idle worker does no harm."""
    shared = sandbox.Sandbox()
    query = "SELECT 1 AS n"
    assert shared.run(Call(), query).to_pylist() == [{"n": 1}]
    (first,) = shared._idle
    first._process.kill()
    first._process.wait()

    assert shared.run(Call(), query).to_pylist() == [{"n": 1}]
    assert shared._idle != [first]
    shared.close()


def test_busy_workers_are_waited_for_and_then_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a few processes, whatever clients ask for, and one of them for quick queries."""
    monkeypatch.setattr(turns, "_MAX_WAIT_SECONDS", 0.2)
    shared = sandbox.Sandbox()
    calls = [Call("ann"), Call("ann"), Call("bob")]
    query = "SELECT levenshtein(t, t || 'b') FROM rows"
    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(shared.run, call, query, (), LONG) for call in calls]
        while shared.busy_workers < 3:
            time.sleep(0.01)

        with pytest.raises(LimitExceededError, match=r"^3 expressions are already being evaluated"):
            shared.run(Call(), "SELECT 1")
        assert shared.run(Call(), "SELECT 1 AS n", is_quick=True).to_pylist() == [{"n": 1}]
        for call in calls:
            call.cancel()
        assert [type(future.exception()) for future in running] == [CancelledError] * 3
    assert shared.run(Call(), "SELECT 1 AS n").to_pylist() == [{"n": 1}]
    shared.close()


@pytest.mark.parametrize(
    ("expression", "is_quick"),
    [
        ("a > 0 AND length(t) < 100 AND t IN ('a', 'b') AND a BETWEEN 1 AND 2", True),
        ("CASE WHEN year(d) > 2000 THEN upper(trim(t)) = t ELSE a % 2 = 0 END", True),
        ("t || t = 'a'", False),
        ("t LIKE '%a%'", False),
        ("regexp_matches(t, 'a')", False),
        ("list_filter([a], x -> x > 0) = [a]", False),
        ("replace(t, 'a', 'b') = t", False),
    ],
)
def test_expression_is_quick_if_its_functions_are(expression: str, is_quick: bool) -> None:
    """What could take long for one row does not get the place that is kept for what cannot."""
    assert evaluation._outline(expression).is_quick is is_quick


def test_quick_functions_are_allowed() -> None:
    """One list is a part of the other."""
    assert QUICK < ALLOWED
