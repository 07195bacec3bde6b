"""Ways around grants, row filters and masks, tried on every engine: each is closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicSchema,
    OnConflict,
    RenameColumn,
    RenameTable,
    ScanOptions,
)
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.predicates import Cast, Column, Comparison, ComparisonOperator, Constant
from sparkport.errors import NotFoundError, PermissionDeniedError, SchemaNotEmptyError
from tests.access_views import grant, view
from tests.behaviour.engine import FullCatalog, FullTable, create, insert, rows

ADA = Call("ada")
_COLUMNS = {"n": pa.int64(), "name": pa.string(), "secret": pa.string()}
_ROWS = [{"n": 1, "name": "a", "secret": "one"}, {"n": 2, "name": "2", "secret": "two"}]


@pytest.fixture
def table(schema: DynamicSchema) -> FullTable:
    """Return a table with two rows."""
    made = create(schema, _COLUMNS)
    insert(made, _ROWS)
    return made


def _schema(catalog: DynamicCatalog, name: str) -> DynamicSchema:
    return cast("DynamicSchema", find_schema(ADA, catalog, name))


def _table(catalog: DynamicCatalog, schema: str, name: str = "t") -> FullTable:
    return cast("FullTable", find_table(ADA, _schema(catalog, schema), name))


def _rules(schema: str, allow: str, *more: str) -> str:
    return "\n".join([grant(allow, f'schemas = "lake.{schema}"'), *more])


def _deny(word: str, thing: str) -> str:
    return f'[[grant]]\nto = "*"\ndeny = "{word}"\n{thing}\n'


def test_hidden_table_is_neither_replaced_nor_dropped(
    catalog: FullCatalog, table: FullTable, schema: DynamicSchema, schema_name: str
) -> None:
    """Who may not know of a table can do nothing to it, whatever else is granted on its schema."""
    other = create(schema, {"n": pa.int64()}, name="other")
    hidden = _deny("browse", f'tables = "lake.{schema_name}.t"')
    seen = view(catalog, _rules(schema_name, "select insert update delete create alter drop", hidden))
    columns = pa.schema([("n", pa.int64())])

    def make(name: str, on_conflict: OnConflict) -> object:
        return _schema(seen, schema_name).create_table(
            ADA, name, columns, CreateTableOptions(on_conflict=on_conflict)
        )

    attempts: list[Callable[[], object]] = [
        lambda: make("t", OnConflict.REPLACE),
        lambda: make("T", OnConflict.REPLACE),
        lambda: make("t", OnConflict.IGNORE),
        lambda: make("t", OnConflict.ERROR),
        lambda: _table(seen, schema_name, "other").alter(ADA, RenameTable("t")),
        lambda: _schema(seen, schema_name).drop_table(ADA, "t", DropTableOptions()),
        lambda: seen.drop_schema(ADA, schema_name, DropSchemaOptions(cascade=True)),
        lambda: seen.drop_schema(ADA, schema_name, DropSchemaOptions()),
    ]
    for attempt in attempts:
        with pytest.raises((PermissionDeniedError, NotFoundError, SchemaNotEmptyError)) as refused:
            attempt()
        assert "already" not in str(refused.value)
    assert other.name == "other"
    assert rows(table) == _ROWS


def test_free_and_taken_names_cannot_be_told_apart(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """CREATE TABLE under a hidden name fails in the same way whether the table is there or not."""
    hidden = _deny("browse", f'tables = ["lake.{schema_name}.t", "lake.{schema_name}.u"]')
    schema = _schema(view(catalog, _rules(schema_name, "create drop", hidden)), schema_name)
    texts = []
    for name in ("t", "u"):
        with pytest.raises(PermissionDeniedError) as refused:
            schema.create_table(ADA, name, pa.schema([("n", pa.int64())]), CreateTableOptions())
        texts.append(str(refused.value).replace(f".{name}'", ".x'"))

    assert texts[0] == texts[1]
    assert rows(table) == _ROWS


def test_new_name_of_a_column_gives_no_more_than_the_old_one(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """A column that the caller may not read or set cannot be renamed to one that it may."""
    for word in ("select", "update"):
        denied = _deny(word, f'columns = "lake.{schema_name}.t.secret"')
        shown = _table(view(catalog, _rules(schema_name, "select update alter create", denied)), schema_name)
        with pytest.raises(PermissionDeniedError, match="rename"):
            shown.alter(ADA, RenameColumn("secret", "open"))
    shown.alter(ADA, RenameColumn("name", "label"))

    assert [row["label"] for row in rows(table)] == ["a", "2"]


def test_new_name_of_a_table_gives_no_more_than_the_old_one(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """A table that the caller may not read cannot be renamed to one that it may."""
    for thing in (f'tables = "lake.{schema_name}.t"', f'columns = "lake.{schema_name}.t.secret"'):
        seen = view(catalog, _rules(schema_name, "select alter create", _deny("select", thing)))
        with pytest.raises(PermissionDeniedError, match="rename"):
            _table(seen, schema_name).alter(ADA, RenameTable("mine"))

    assert rows(table) == _ROWS


@pytest.mark.parametrize("rule", ["browse", "select", "mask"])
def test_old_name_of_a_column_does_not_show_it(
    catalog: FullCatalog, table: FullTable, schema_name: str, rule: str
) -> None:
    """A rule for a column holds for versions in which the column had another name."""
    before = table.snapshot(Call(), None).time_point
    table.alter(Call(), RenameColumn("secret", "hidden"))
    thing = f'columns = "lake.{schema_name}.t.hidden"'
    text = f'[[mask]]\nfor = "*"\n{thing}\nvalue = "NULL"\n' if rule == "mask" else _deny(rule, thing)
    shown = _table(view(catalog, _rules(schema_name, "select", text)), schema_name)
    then = shown.scan(ADA, ScanOptions(time_point=before)).read_all()
    with pytest.raises(NotFoundError):
        shown.scan(ADA, ScanOptions(columns=("secret",), time_point=before)).read_all()

    assert [name for name in then.schema.names if name in _COLUMNS] == ["n", "name"]
    assert "secret" not in shown.snapshot(ADA, before).arrow_schema.names
    assert "one" not in str(then.to_pydict())


def test_error_of_a_filter_tells_nothing_of_hidden_rows(
    catalog: FullCatalog, schema: DynamicSchema, schema_name: str
) -> None:
    """A filter that fails for a row that the caller does not see changes nothing in what it gets."""
    filtered = f'[[filter]]\nfor = "*"\ntables = "lake.{schema_name}.*"\nrows = "n = 2"\n'
    seen = view(catalog, _rules(schema_name, "select", filtered))
    number = Cast(Column("name"), pa.int64())
    by_number = Comparison(ComparisonOperator.EQUAL, number, Constant(pa.scalar(3, pa.int64())))
    found = []
    for name, hidden in (("fails", "not a number"), ("works", "7")):
        insert(create(schema, _COLUMNS, name=name), [_ROWS[1], {"n": 1, "name": hidden, "secret": ""}])
        found.append(rows(_table(seen, schema_name, name), options=ScanOptions(filter=by_number)))

    assert found[0] == found[1] == [_ROWS[1]]
