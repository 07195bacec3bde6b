"""The access file: what it says, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkport import cli
from sparkport.access.decisions import Rights
from sparkport.access.explain import explain
from sparkport.access.file import parse_rules
from sparkport.access.rules import Kind
from sparkport.catalog.guards import Privilege
from sparkport.errors import ConfigError

_SAMPLE = """\
[roles]
analyst = ["ada"]
manager = []

[[grant]]
to = "analyst"
allow = ["select"]
schemas = "lake.sales"

[[grant]]
to = "analyst"
deny = ["browse"]
columns = "lake.sales.customers.email"

[[filter]]
for = "analyst"
unless = "manager"
tables = "lake.sales.orders"
rows = "region = 'EU'"

[[mask]]
for = "analyst"
columns = "lake.sales.*.phone"
value = "'***'"
"""


def _errors(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse_rules(text)
    return [line.strip() for line in str(error.value).splitlines()]


def test_everything_wrong_is_told_with_its_line() -> None:
    """All errors of a file come at once, each with the line of the key, or of the block."""
    text = """\
[roles]
analyst = "ada"

[[grant]]
to = "nobody"
allow = ["look", "sql"]
tables = ["lake.sales", "lake..x", "lake.s.t"]
where = 1

[[grant]]
allow = "select"

[[filter]]
for = "*"
tables = "a.b.c"

[[mask]]
for = "*"
columns = "a.b.c.d"
value = ""

[[masks]]
"""
    known = "actions, allow, catalogs, columns, deny, functions, schemas, tables, to, unless"

    assert _errors(text) == [
        "line 2: role 'analyst' is a list of names, which may be empty",
        "line 5: role 'nobody' is not in [roles]",
        "line 6: 'sql' is nothing that can be done to a table",
        f"line 6: there is no 'look': use {', '.join(Privilege)}",
        "line 7: 'lake..x' is not a name such as lakehouse.sales.orders",
        "line 7: the name of a table is written catalog.schema.table, not 'lake.sales'",
        f"line 8: there is no 'where': use {known}",
        "line 10: it does not say whom it is for: to = a role, or '*'",
        "line 10: it is about nothing: give one of catalogs, schemas, tables, columns, functions, actions",
        "line 13: rows is a condition such as \"region = 'EU'\"",
        "line 20: value is an expression such as \"'***'\"",
        "line 22: there is no part 'masks': use roles, grant, filter, mask",
    ]
    assert _errors("[roles\n")[0].endswith("(at line 1, column 7)")


def test_lines_are_right_behind_texts_of_several_lines() -> None:
    """A text that looks like a header, and comments, do not count."""
    text = '[roles]\n[[filter]]\nfor = "*"\ntables = "a.b.c"\nrows = """\n[[grant]]\nx = 1"""\n'
    text += '[[grant]]\nto = "a"\n'

    assert _errors(text)[0].startswith("line 8: it is about nothing")
    assert "line 9: role 'a' is not in [roles]" in _errors(text)


def test_names_may_have_dots_and_any_letter_case() -> None:
    """A part in quotes may have dots; `*` stands for any text of one part."""
    rules = parse_rules('[[grant]]\nto="*"\nallow="select"\ntables=\'Lake."my.schema".or*\'\n')
    rights = Rights(rules, "ada", frozenset())

    assert rights.allow(Privilege.SELECT, Kind.TABLE, ("lake", "my.schema", "ORDERS"))
    assert not rights.allow(Privilege.SELECT, Kind.TABLE, ("lake", "my.schema", "x.orders"))
    assert not rights.allow(Privilege.SELECT, Kind.TABLE, ("lake", "my", "orders"))


def test_what_is_done_to_a_thing_implies_that_it_is_there() -> None:
    """To run SQL in a catalog, or functions, tells nothing of its tables; to insert into one tells of it."""
    rules = parse_rules(
        '[[grant]]\nto="*"\nallow="sql"\ncatalogs="lake"\n'
        '[[grant]]\nto="*"\nallow="execute"\nschemas="lake.f"\n'
        '[[grant]]\nto="*"\nallow="insert"\ntables="lake.s.log"\n'
    )
    rights = Rights(rules, "ada", frozenset())

    assert rights.show(Kind.CATALOG, ("lake",))
    assert not rights.show(Kind.CATALOG, ("other",))
    assert rights.show(Kind.SCHEMA, ("lake", "s"))
    assert rights.show(Kind.SCHEMA, ("lake", "f"))
    assert not rights.show(Kind.SCHEMA, ("lake", "t"))
    assert not rights.show(Kind.TABLE, ("lake", "f", "t"))
    assert rights.show(Kind.TABLE, ("lake", "s", "log"))
    assert not rights.show(Kind.TABLE, ("lake", "s", "other"))


def test_explanation_names_the_lines() -> None:
    """It says what holds for a caller and a table, and which grant decides."""
    rules = parse_rules(_SAMPLE)
    told = explain(rules, "ada", frozenset(), ("lake", "sales", "orders"))
    manager = explain(rules, "ada", frozenset({"manager"}), ("lake", "sales", "customers"))
    nobody = explain(rules, "bob", frozenset({"unheard-of"}), ("lake", "sales", "orders"))

    assert "ada has the roles: analyst" in told
    assert "select   yes  (granted on schema lake.sales, line 5)" in told
    assert "insert   no   (nothing grants it)" in told
    assert "only rows with region = 'EU' (line 15)" in told
    assert "browse denied on lake.sales.customers.email (line 10)" in manager
    assert "lake.sales.*.phone is shown as '***' (line 21)" in manager
    assert "only rows" not in manager
    assert "lake.sales.orders does not exist for bob" in nobody


def test_commands_check_and_explain(tmp_path: Path) -> None:
    """A valid file is counted, another one is exit code 2 with the lines."""
    file = tmp_path / "access.toml"
    file.write_text(_SAMPLE)
    run = CliRunner().invoke
    valid = run(cli.app, ["access", "check", str(file)])
    told = run(cli.app, ["access", "explain", "ada", "lake.sales.orders", "--file", str(file)])
    short = run(cli.app, ["access", "explain", "ada", "orders", "--file", str(file)])
    file.write_text(_SAMPLE.replace("region = 'EU'", "region = 'EU' AND (SELECT true)"))
    wrong = run(cli.app, ["access", "check", str(file)])
    missing = run(cli.app, ["access", "check", str(tmp_path / "none.toml")])

    assert (valid.exit_code, valid.output) == (
        0,
        f"{file} is valid: 2 roles, 2 grants, 1 row filters, 1 masks\n",
    )
    assert "(granted on schema lake.sales, line 5)" in told.output
    assert "catalog.schema.table" in short.output
    assert [short.exit_code, wrong.exit_code, missing.exit_code] == [2, 2, 2]
    assert "line 15: " in wrong.output
