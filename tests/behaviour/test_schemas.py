"""CREATE SCHEMA and DROP SCHEMA."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DynamicSchema,
    TaggedSchema,
)
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    SchemaNotEmptyError,
)
from tests.behaviour.engine import FullCatalog, create, insert

NAMES = [
    "with space",
    'a "quoted" one',
    "it's",
    "dotted.name",
    "a/b\\c",
    "ünïcödé",
    "数据",
    "🦆",
    "SELECT",
    "%s",
]


def test_new_schema_is_listed_with_comment_and_tags(catalog: FullCatalog, schema_name: str) -> None:
    """A schema keeps what it was made with."""
    options = CreateSchemaOptions("Things to sell", {"owner": "me"})
    catalog.create_schema(Call(), schema_name, options)
    found = catalog.schema(Call(), schema_name)

    assert isinstance(found, TaggedSchema)
    assert (found.name, found.comment, dict(found.tags)) == (schema_name, "Things to sell", {"owner": "me"})
    assert schema_name in [schema.name for schema in catalog.schemas(Call())]


def test_new_schema_has_no_comment_by_default(schema: DynamicSchema) -> None:
    """Without a comment it is an empty text."""
    assert schema.comment == ""


@pytest.mark.parametrize("name", NAMES)
def test_schema_may_have_any_name(catalog: FullCatalog, schema_name: str, name: str) -> None:
    """Names are data: no character is special."""
    full = f"{schema_name} {name}"
    catalog.create_schema(Call(), full, CreateSchemaOptions())
    found = catalog.schema(Call(), full)

    assert found is not None
    assert found.name == full
    assert catalog.drop_schema(Call(), full, DropSchemaOptions()) == 0
    assert catalog.schema(Call(), full) is None


def test_schema_needs_a_name(catalog: FullCatalog) -> None:
    """An empty name is refused."""
    with pytest.raises(InvalidRequestError, match=r"^a schema needs a name$"):
        catalog.create_schema(Call(), "", CreateSchemaOptions())


def test_schema_is_not_made_twice(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A taken name is an error that names it."""
    with pytest.raises(AlreadyExistsError, match=f"^schema '{schema.name}' already exists$"):
        catalog.create_schema(Call(), schema.name, CreateSchemaOptions())


def test_schema_names_differ_in_more_than_case(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A name that differs only in case is taken."""
    with pytest.raises(AlreadyExistsError):
        catalog.create_schema(Call(), schema.name.upper(), CreateSchemaOptions())


def test_empty_schema_is_dropped(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Dropping an empty schema takes no tables along."""
    assert catalog.drop_schema(Call(), schema.name, DropSchemaOptions()) == 0
    assert catalog.schema(Call(), schema.name) is None


def test_schema_with_tables_is_kept(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Without cascade tables hold their schema."""
    create(schema, {"n": pa.int64()})

    message = f"schema '{schema.name}' contains tables (1 table: 't'); drop them first or use cascade"
    with pytest.raises(SchemaNotEmptyError) as caught:
        catalog.drop_schema(Call(), schema.name, DropSchemaOptions())
    assert str(caught.value) == message
    assert schema.table(Call(), "t") is not None


def test_cascade_drops_the_tables_too(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """With cascade the tables go, and are counted."""
    create(schema, {"n": pa.int64()}, "a")
    create(schema, {"n": pa.int64()}, "b")

    assert catalog.drop_schema(Call(), schema.name, DropSchemaOptions(cascade=True)) == 2
    assert catalog.schema(Call(), schema.name) is None


def test_dropped_schema_can_be_made_again_empty(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A new schema of the same name has nothing of the old."""
    create(schema, {"n": pa.int64()})
    catalog.drop_schema(Call(), schema.name, DropSchemaOptions(cascade=True))
    again = catalog.create_schema(Call(), schema.name, CreateSchemaOptions())

    assert list(again.tables(Call())) == []


def test_missing_schema_is_named_in_the_error(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Dropping what is not there is an error, with a near match as a hint."""
    wrong = f"{schema.name}x"
    with pytest.raises(NotFoundError, match=f"^schema '{wrong}' not found. Did you mean 'behaviour_"):
        catalog.drop_schema(Call(), wrong, DropSchemaOptions())


def test_missing_schema_can_be_ignored(catalog: FullCatalog) -> None:
    """IF EXISTS makes dropping nothing fine."""
    assert catalog.drop_schema(Call(), "no_such_schema", DropSchemaOptions(ignore_not_found=True)) == 0


def test_dropped_schema_takes_no_more_tables(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A table made in a schema that is gone would be lost, so it is refused."""
    catalog.drop_schema(Call(), schema.name, DropSchemaOptions())

    with pytest.raises(NotFoundError, match=f"^schema '{schema.name}' not found"):
        schema.create_table(Call(), "t", pa.schema([("n", pa.int64())]), CreateTableOptions())


def test_table_of_a_dropped_schema_takes_no_more_rows(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Rows written to a table that is gone would be lost, so they are refused."""
    table = create(schema, {"n": pa.int64()})
    catalog.drop_schema(Call(), schema.name, DropSchemaOptions(cascade=True))

    with pytest.raises(NotFoundError):
        insert(table, [{"n": 1}])


def test_catalog_version_rises_with_every_change_of_the_listing(
    catalog: FullCatalog, schema_name: str
) -> None:
    """Who caches a listing learns that it is old."""
    seen = [catalog.catalog_version(Call()).version]

    def note() -> None:
        seen.append(catalog.catalog_version(Call()).version)

    schema = catalog.create_schema(Call(), schema_name, CreateSchemaOptions())
    note()
    assert isinstance(schema, DynamicSchema)
    create(schema, {"n": pa.int64()})
    note()
    catalog.drop_schema(Call(), schema_name, DropSchemaOptions(cascade=True))
    note()

    assert seen == sorted(set(seen))
    assert not catalog.catalog_version(Call()).is_fixed


def test_catalog_version_stays_when_nothing_changes(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Reading and failing DDL leave the version alone."""
    before = catalog.catalog_version(Call())
    with pytest.raises(AlreadyExistsError):
        catalog.create_schema(Call(), schema.name, CreateSchemaOptions())
    catalog.drop_schema(Call(), "no_such_schema", DropSchemaOptions(ignore_not_found=True))
    list(catalog.schemas(Call()))

    assert catalog.catalog_version(Call()) == before
