"""Grants over every engine: what is not granted is refused, and what may not be browsed is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest

from sparkport.catalog import (
    AddColumn,
    AddConstraint,
    Call,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicSchema,
    OnConflict,
    RenameTable,
    ScanOptions,
    StatementTable,
    StatisticsTable,
    Table,
)
from sparkport.catalog.dml import run
from sparkport.catalog.guards import Privilege
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.catalog.rowid import rowid_name
from sparkport.errors import (
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RowNotFoundError,
    SchemaNotEmptyError,
)
from tests.access_views import grant, view
from tests.behaviour.engine import FullCatalog, FullTable, create, ids, insert, rows

ADA = Call("ada")
_COLUMNS = {"n": pa.int64(), "region": pa.string(), "secret": pa.string()}
_ROWS: list[dict[str, Any]] = [
    {"n": 1, "region": "EU", "secret": "a"},
    {"n": 2, "region": "US", "secret": "b"},
    {"n": 3, "region": "EU", "secret": None},
    {"n": 4, "region": None, "secret": "d"},
]


@pytest.fixture
def table(schema: DynamicSchema) -> FullTable:
    """Return a table with four rows."""
    made = create(schema, _COLUMNS)
    insert(made, _ROWS)
    return made


def _seen(catalog: DynamicCatalog, schema: str, name: str = "t") -> FullTable:
    return cast("FullTable", find_table(ADA, find_schema(ADA, catalog, schema), name))


def _schema(catalog: DynamicCatalog, name: str) -> DynamicSchema:
    return cast("DynamicSchema", find_schema(ADA, catalog, name))


def _insert(table: StatementTable, row: dict[str, Any], *, returning: bool = False) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist([row], pa.schema(list(_COLUMNS.items())))
    return _run(table, table.begin_insert(ADA, returning=returning), batch, returning=returning)


def _update(
    table: StatementTable, row_ids: list[int], changes: dict[str, Any], *, returning: bool = False
) -> list[dict[str, Any]]:
    columns = [pa.array([value] * len(row_ids), _COLUMNS[name]) for name, value in changes.items()]
    batch = pa.record_batch([*columns, pa.array(row_ids, pa.int64())], names=[*changes, "rowid"])
    statement = table.begin_update(ADA, tuple(changes), returning=returning)
    return _run(table, statement, batch, returning=returning)


def _delete(table: StatementTable, row_ids: list[int], *, returning: bool = False) -> list[dict[str, Any]]:
    batch = pa.record_batch([pa.array(row_ids, pa.int64())], names=["rowid"])
    return _run(table, table.begin_delete(ADA, returning=returning), batch, returning=returning)


def _run(table: Any, statement: Any, batch: pa.RecordBatch, *, returning: bool) -> list[dict[str, Any]]:
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    result = run(ADA, statement, reader, table.arrow_schema, returning=returning)
    if result.returning_data is None:
        return []
    answer = result.returning_data.read_all()
    name = rowid_name(answer.schema) or "rowid"
    return cast("list[dict[str, Any]]", answer.drop_columns([name]).to_pylist())


@dataclass(frozen=True)
class _Attempt:
    """What an operation is tried on."""

    catalog: DynamicCatalog
    schema_name: str
    row_id: int

    @property
    def schema(self) -> DynamicSchema:
        return _schema(self.catalog, self.schema_name)

    @property
    def table(self) -> FullTable:
        return _seen(self.catalog, self.schema_name)

    def create(self, name: str, on_conflict: OnConflict = OnConflict.ERROR) -> Table:
        options = CreateTableOptions(on_conflict=on_conflict)
        return self.schema.create_table(ADA, name, pa.schema([("n", pa.int64())]), options)


_NEW = {"n": 9, "region": "EU", "secret": "z"}
_SELECT, _INSERT, _UPDATE, _DELETE = Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE
_CREATE, _ALTER, _DROP = Privilege.CREATE, Privilege.ALTER, Privilege.DROP
# What each operation needs beside browsing, and how to try it.
OPERATIONS: dict[str, tuple[set[Privilege], Callable[[_Attempt], object]]] = {
    "list": (set(), lambda a: [table.name for table in a.schema.tables(ADA)].index("t")),
    "describe": (set(), lambda a: a.table.arrow_schema),
    "scan": ({_SELECT}, lambda a: a.table.scan(ADA, ScanOptions()).read_all()),
    "statistics": ({_SELECT}, lambda a: a.table.column_statistics(ADA, "n")),
    "insert": ({_INSERT}, lambda a: _insert(a.table, _NEW)),
    "insert returning": ({_INSERT, _SELECT}, lambda a: _insert(a.table, _NEW, returning=True)),
    "update": ({_UPDATE}, lambda a: _update(a.table, [a.row_id], {"region": "DE"})),
    "update returning": (
        {_UPDATE, _SELECT},
        lambda a: _update(a.table, [a.row_id], {"region": "DE"}, returning=True),
    ),
    "delete": ({_DELETE}, lambda a: _delete(a.table, [a.row_id])),
    "add column": ({_ALTER}, lambda a: a.table.alter(ADA, AddColumn(pa.field("more", pa.int64())))),
    "add check": ({_ALTER, _SELECT}, lambda a: a.table.alter(ADA, AddConstraint("CHECK (n > 0)"))),
    "rename": ({_ALTER, _CREATE}, lambda a: a.table.alter(ADA, RenameTable("t2"))),
    "create": ({_CREATE}, lambda a: a.create("new")),
    "replace": ({_CREATE, _DROP}, lambda a: a.create("t", OnConflict.REPLACE)),
    "drop": ({_DROP}, lambda a: a.schema.drop_table(ADA, "t", DropTableOptions())),
    "create schema": (
        {_CREATE},
        lambda a: a.catalog.create_schema(ADA, f"{a.schema_name}_more", CreateSchemaOptions()),
    ),
    "drop schema": (
        {_DROP},
        lambda a: a.catalog.drop_schema(ADA, a.schema_name, DropSchemaOptions(cascade=True)),
    ),
}
_EACH = ["select", "insert", "update", "delete", "create", "alter", "drop"]
_SETS = [*_EACH, "", "insert select", "update select", "alter select", "alter create", "create drop", "admin"]


@pytest.mark.parametrize("granted", _SETS)
def test_grants_decide_every_operation(catalog: FullCatalog, schema_name: str, granted: str) -> None:
    """With each set of privileges exactly the operations that need no more succeed."""
    seen = view(catalog, grant(f"browse {granted}", f'schemas = "lake.{schema_name}*"'))
    outcomes, expected = {}, {}
    row_id = _remake(catalog, schema_name)
    for operation, (needed, attempt) in OPERATIONS.items():
        try:
            attempt(_Attempt(seen, schema_name, row_id))
            outcomes[operation] = True
        except PermissionDeniedError:
            outcomes[operation] = False
        expected[operation] = needed <= set(granted.split()) or granted == "admin"
        if outcomes[operation] and needed - {_SELECT}:
            row_id = _remake(catalog, schema_name)

    assert outcomes == expected


def _remake(catalog: FullCatalog, name: str) -> int:
    """Make the schema and its table anew, and return the id of the first row."""
    gone = DropSchemaOptions(ignore_not_found=True, cascade=True)
    catalog.drop_schema(Call(), f"{name}_more", gone)
    catalog.drop_schema(Call(), name, gone)
    made = catalog.create_schema(Call(), name, CreateSchemaOptions())
    table = create(cast("DynamicSchema", made), _COLUMNS)
    insert(table, _ROWS)
    return ids(table)[0]


def test_nothing_is_there_without_a_grant(catalog: FullCatalog, table: FullTable, schema_name: str) -> None:
    """A caller without grants sees no schema; one with a grant on another table sees that alone."""
    nothing = view(catalog, "[roles]")
    other = view(catalog, grant("select", f'tables = "lake.{schema_name}.other"'))

    assert table.name == "t"
    assert nothing.schema(ADA, schema_name) is None
    assert list(nothing.schemas(ADA)) == []
    assert [schema.name for schema in other.schemas(ADA)] == [schema_name]
    assert list(_schema(other, schema_name).tables(ADA)) == []


def test_what_may_not_be_browsed_is_as_if_missing(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """The error for a hidden table is that for a missing one, with the same hints."""
    seen = view(
        catalog,
        grant("select", f'schemas = "lake.{schema_name}"')
        + f'[[grant]]\nto = "*"\ndeny = "browse"\ntables = "lake.{schema_name}.t"\n',
    )
    with pytest.raises(NotFoundError) as hidden:
        _seen(seen, schema_name, "t")
    with pytest.raises(NotFoundError) as missing:
        _seen(seen, schema_name, "u")
    with pytest.raises(NotFoundError) as dropped:
        _schema(seen, schema_name).drop_table(ADA, "t", DropTableOptions())
    _schema(seen, schema_name).drop_table(ADA, "t", DropTableOptions(ignore_not_found=True))

    assert table.name == "t"
    assert str(hidden.value).replace(".t'", ".u'") == str(missing.value)
    assert str(dropped.value) == str(hidden.value)
    assert len(rows(table)) == len(_ROWS)


def test_denial_wins(catalog: FullCatalog, table: FullTable, schema_name: str) -> None:
    """What one grant denies, no other allows, not even admin on the catalog."""
    seen = view(
        catalog,
        grant("admin", 'catalogs = "lake"')
        + f'[[grant]]\nto = "*"\ndeny = "select"\ntables = "lake.{schema_name}.T"\n',
    )
    with pytest.raises(PermissionDeniedError, match=r"may not select from table '.*\.t'"):
        _seen(seen, schema_name).scan(ADA, ScanOptions())
    assert _insert(_seen(seen, schema_name), _NEW) == []
    assert len(rows(table)) == len(_ROWS) + 1


def test_hidden_column_is_not_there(catalog: FullCatalog, table: FullTable, schema_name: str) -> None:
    """A column that may not be browsed is in no schema, scan, filter, statistics or statement."""
    seen = view(
        catalog,
        grant("select insert update delete alter", f'schemas = "lake.{schema_name}"')
        + f'[[grant]]\nto = "*"\ndeny = "browse"\ncolumns = "lake.{schema_name}.t.secret"\n',
    )
    shown = _seen(seen, schema_name)
    by_secret = Comparison(ComparisonOperator.EQUAL, Column("secret"), Constant(pa.scalar("a")))
    refused: list[Callable[[], object]] = [
        lambda: shown.scan(ADA, ScanOptions(columns=("secret",))),
        lambda: shown.scan(ADA, ScanOptions(columns=("n",), filter=by_secret)),
        lambda: shown.column_statistics(ADA, "secret"),
        lambda: _update(shown, ids(table)[:1], {"secret": "x"}),
    ]
    for attempt in refused:
        with pytest.raises(NotFoundError, match="column 'secret' not found"):
            attempt()
    for attempt in (lambda: _insert(shown, _NEW), lambda: _delete(shown, [0], returning=True)):
        with pytest.raises(PermissionDeniedError, match="does not see all columns"):
            attempt()

    assert rows(shown) == [{"n": row["n"], "region": row["region"]} for row in _ROWS]
    assert shown.arrow_schema is not None
    assert "secret" not in shown.snapshot(ADA, None).arrow_schema.names
    assert rows(table) == _ROWS


def test_grant_on_columns_shows_these_alone(catalog: FullCatalog, table: FullTable, schema_name: str) -> None:
    """A caller who may select two columns sees a table of two columns, and may change nothing."""
    thing = f'columns = ["lake.{schema_name}.t.n", "lake.{schema_name}.t.reg*"]'
    shown = _seen(view(catalog, grant("select", thing)), schema_name)
    with pytest.raises(PermissionDeniedError):
        _delete(shown, ids(table)[:1])

    assert rows(shown) == [{"n": row["n"], "region": row["region"]} for row in _ROWS]
    assert shown.snapshot(ADA, None).row_count is None


def test_schema_with_hidden_tables_is_not_dropped(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """Neither with cascade nor without: and the errors do not name the tables."""
    seen = view(
        catalog,
        grant("drop create", f'schemas = "lake.{schema_name}"', deny="")
        + f'[[grant]]\nto = "*"\ndeny = ["browse", "drop"]\ntables = "lake.{schema_name}.t"\n',
    )
    for cascade in (True, False):
        with pytest.raises((PermissionDeniedError, SchemaNotEmptyError)) as error:
            seen.drop_schema(ADA, schema_name, DropSchemaOptions(cascade=cascade))
        assert "'t'" not in str(error.value)
    assert len(rows(table)) == len(_ROWS)


_FILTER = """
[roles]
european = ["ada"]
manager = []

[[grant]]
to = "*"
allow = ["select", "insert", "update", "delete", "alter"]
schemas = "lake.*"

[[filter]]
for = "european"
unless = "manager"
tables = "lake.*.t"
rows = "region = 'EU' AND current_principal() = 'ada'"
"""
_MASK = """
[[grant]]
to = "*"
allow = ["select", "insert", "update", "delete"]
schemas = "lake.*"

[[mask]]
for = "*"
columns = "lake.*.*.secret"
value = "CASE WHEN secret IS NULL THEN 'none' ELSE left(secret, 0) || '*' END"
"""


def test_row_filter_holds_for_every_read(catalog: FullCatalog, table: FullTable, schema_name: str) -> None:
    """Rows for which the condition is false or null are in no scan, count, version or statistics."""
    shown = _seen(view(catalog, _FILTER), schema_name)
    before = table.snapshot(Call(), None).time_point
    insert(table, [{"n": 5, "region": "EU", "secret": "e"}, {"n": 6, "region": "US", "secret": "f"}])
    by_region = Comparison(ComparisonOperator.EQUAL, Column("region"), Constant(pa.scalar("US")))

    assert [row["n"] for row in rows(shown)] == [1, 3, 5]
    assert [row["n"] for row in rows(shown, options=ScanOptions(time_point=before))] == [1, 3]
    assert rows(shown, options=ScanOptions(filter=by_region, columns=("n",))) == []
    assert shown.scan(ADA, ScanOptions(limit=2)).read_all().num_rows == 2
    assert shown.snapshot(ADA, None).row_count is None
    assert not isinstance(shown, StatisticsTable)
    assert [row["n"] for row in rows(_seen(view(catalog, _FILTER, "boss", "manager"), schema_name))] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_rows_that_are_not_seen_cannot_be_changed(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """UPDATE and DELETE treat them as absent, RETURNING tells nothing of them, new rows must be visible."""
    shown = _seen(view(catalog, _FILTER), schema_name)
    one, two, three, _ = ids(table)
    with pytest.raises(RowNotFoundError):
        _update(shown, [one, two], {"secret": "x"})
    with pytest.raises(PermissionDeniedError, match="does not satisfy the row filter"):
        _update(shown, [one], {"region": "US"})
    with pytest.raises(PermissionDeniedError, match="does not satisfy the row filter"):
        _insert(shown, {"n": 7, "region": "US", "secret": "g"})
    with pytest.raises(PermissionDeniedError, match="a row filter or mask applies"):
        shown.alter(ADA, AddColumn(pa.field("more", pa.int64())))
    unchanged = rows(table)
    deleted = _delete(shown, [two, three], returning=True)
    updated = _update(shown, [one], {"secret": "x"}, returning=True)
    inserted = _insert(shown, {"n": 7, "region": "EU", "secret": "g"}, returning=True)

    assert unchanged == _ROWS
    assert deleted == [_ROWS[2]]
    assert updated == [_ROWS[0] | {"secret": "x"}]
    assert inserted == [{"n": 7, "region": "EU", "secret": "g"}]
    assert sorted(row["n"] for row in rows(table)) == [1, 2, 4, 7]


def test_row_that_another_hides_meanwhile_is_a_conflict(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """A row that leaves the filter while a DELETE runs is not deleted."""
    shown = _seen(view(catalog, _FILTER), schema_name)
    one = ids(table)[0]
    statement = shown.begin_delete(ADA, returning=False)
    statement.write(pa.record_batch([pa.array([one], pa.int64())], names=["rowid"]))
    _update(table, [one], {"region": "US"})
    with pytest.raises(ConflictError):
        statement.commit()

    assert len(rows(table)) == len(_ROWS)


def test_mask_holds_for_every_read(catalog: FullCatalog, table: FullTable, schema_name: str) -> None:
    """A masked column shows other values everywhere, and filters on it are not evaluated on its own."""
    shown = _seen(view(catalog, _MASK), schema_name)
    by_secret = Comparison(ComparisonOperator.EQUAL, Column("secret"), Constant(pa.scalar("a")))
    masked = ["*", "*", "none", "*"]
    with pytest.raises(PermissionDeniedError, match="masked"):
        _update(shown, ids(table)[:1], {"secret": "x"})
    updated = _update(shown, ids(table)[:1], {"region": "EU"}, returning=True)

    assert [row["secret"] for row in rows(shown)] == masked
    assert len(rows(shown, options=ScanOptions(columns=("n",), filter=by_secret))) == len(_ROWS)
    assert updated == [_ROWS[0] | {"secret": "*"}]
    assert not isinstance(shown, StatisticsTable)
    assert rows(table) == _ROWS


def test_filter_that_cannot_be_applied_shows_nothing(
    catalog: FullCatalog, table: FullTable, schema_name: str
) -> None:
    """A condition on a column that is not there is an error without the condition, and shows no row."""
    rules = _FILTER.replace("region = 'EU'", "no_such_column = 'EU'")
    with pytest.raises(PermissionDeniedError) as error:
        rows(_seen(view(catalog, rules), schema_name))

    assert table.name == "t"
    assert "no_such_column" not in str(error.value)
