from __future__ import annotations

import threading

import duckdb
import pyarrow as pa
import pytest

from sparkport import expressions
from sparkport.catalog import Call
from sparkport.errors import CancelledError, DeadlineExceededError, InvalidRequestError
from sparkport.expressions import Constraint, evaluation

ROWS = pa.table({"a": [1, 2, None], "odd name": ["x", "y", "z"], "s": [{"x": 1}, {"x": 2}, None]})
# DuckDB looks at an interrupt between vectors of rows, so that many rows are needed.
MANY = pa.table({"a": range(300_000)})
SLOW = f"levenshtein('ab' || a || '{'x' * 300}', '{'y' * 300}') > 0"


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
    with evaluation._connection(Call()) as connection, pytest.raises(duckdb.Error):
        connection.execute(statement)


def test_python_variables_are_out_of_reach() -> None:
    """DuckDB's replacement scans do not find the server's own tables."""
    secret = pa.table({"password": ["x"]})
    assert len(secret) == 1

    with evaluation._connection(Call()) as connection, pytest.raises(duckdb.Error):
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
        expressions.evaluate(call, SLOW, MANY)
    timer.join()


def test_deadline_stops_a_running_expression() -> None:
    """A long expression ends with the time of its call."""
    with pytest.raises(DeadlineExceededError):
        expressions.evaluate(Call(timeout=0.2), SLOW, MANY)


def test_cancelling_later_is_harmless() -> None:
    """An expression that is done leaves nothing behind that a cancellation could hit."""
    call = Call()
    expressions.evaluate(call, "a", ROWS)
    seen: list[str] = []
    call.on_cancel(lambda: seen.append("told"))
    call.cancel()

    assert seen == ["told"]


@pytest.mark.parametrize("expression", ["len(range(1000000000)) > a", "repeat('x', 1000000000) = 'x'"])
def test_functions_without_bounds_are_refused(expression: str) -> None:
    """A value that could fill the memory is refused before it is computed."""
    with pytest.raises(InvalidRequestError, match="its result may be of any size"):
        expressions.evaluate(Call(), expression, pa.table({"a": [1]}))
