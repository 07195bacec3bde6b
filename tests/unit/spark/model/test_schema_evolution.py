"""Spark schemas after an ALTER."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from sparkport.catalog import AddColumn, AddField, ChangeColumnType, RemoveColumn, RenameColumn, RenameField
from sparkport.spark.delta.log.spark_fields import SparkField, struct_fields, struct_json
from sparkport.spark.model.columns import column_of, rowid_spark_field
from sparkport.spark.model.schema_evolution import evolve_schema
from sparkport.spark.types import ARROW_KEY

X = SparkField("x", "integer", nullable=False, metadata={"id": 3})
DEEP = SparkField("deep", struct_json([SparkField("x", "string", metadata={"id": 5})]), metadata={"id": 4})
FIELDS = [
    SparkField("a", "varchar(9)", metadata={"id": 1, "CURRENT_DEFAULT": "'z'"}),
    SparkField("s", struct_json([X, DEEP]), metadata={"id": 2}),
]
OLD = pa.schema([column_of(field).exact for field in FIELDS])
STORED = [*FIELDS, rowid_spark_field(OLD)]


def test_renamed_column_keeps_what_is_noted_on_it() -> None:
    """Type, defaults and Delta's notes are those of before."""
    new = OLD.set(0, OLD.field(0).with_name("b"))
    evolved, stays = evolve_schema(STORED, OLD, new, RenameColumn("a", "b"))

    assert stays
    assert evolved == (replace(FIELDS[0], name="b"), FIELDS[1], rowid_spark_field(OLD))


def test_changed_default_replaces_that_of_spark() -> None:
    """A default in DuckDB's words is nothing that Spark should use."""
    new = OLD.set(0, OLD.field(0).with_metadata({"default": "'q'"}))
    evolved, stays = evolve_schema(STORED, OLD, new, RenameColumn("a", "a"))

    assert stays
    assert evolved[0].metadata == {"id": 1, "sparkport.default": "'q'"}


def test_removed_column_leaves_the_others_in_place() -> None:
    """Only the column itself goes."""
    evolved, stays = evolve_schema(STORED, OLD, OLD.remove(0), RemoveColumn("a"))

    assert stays
    assert evolved == (FIELDS[1], rowid_spark_field(OLD))


def test_added_column_has_no_notes_of_deltas() -> None:
    """It comes before the hidden one, and Delta gives it an id."""
    column = pa.field("n", pa.uint8())
    evolved, stays = evolve_schema(STORED, OLD, OLD.append(column), AddColumn(column))

    assert stays
    assert [field.name for field in evolved] == ["a", "s", "n", "_sparkport_rowid"]
    assert set(evolved[2].metadata) == {ARROW_KEY}


def test_only_the_field_at_the_path_is_renamed() -> None:
    """A field of the same name elsewhere stays, and each keeps its notes and nullability."""
    deep = pa.struct([("y", pa.string())])
    new = OLD.set(1, pa.field("s", pa.struct([("x", pa.int32()), ("deep", deep)])))
    evolved, stays = evolve_schema(STORED, OLD, new, RenameField(("S", "DEEP", "X"), "y"))
    renamed = replace(DEEP, type=struct_json([SparkField("y", "string", metadata={"id": 5})]))

    assert stays
    assert struct_fields(evolved[1].type) == (X, renamed)
    assert evolved[1].metadata == {"id": 2}


def test_new_field_of_an_exact_type_is_noted_on_the_column() -> None:
    """Spark has no unsigned numbers, so that the whole struct is described."""
    field = pa.field("u", pa.uint16())
    new = OLD.set(1, pa.field("s", pa.struct([*OLD.field(1).type, field])))
    evolved, stays = evolve_schema(STORED, OLD, new, AddField(("s",), field))

    assert stays
    assert [part.name for part in struct_fields(evolved[1].type)] == ["x", "deep", "u"]
    assert set(evolved[1].metadata) == {"id", ARROW_KEY}


def test_other_type_means_another_column() -> None:
    """Values are stored anew, under an id of their own; a struct in the place of another kind too."""
    new = OLD.set(0, OLD.field(0).with_type(pa.int32()))
    evolved, stays = evolve_schema(STORED, OLD, new, ChangeColumnType("a", pa.int32()))

    assert not stays
    assert evolved[0].type == "integer"
    assert "id" not in evolved[0].metadata


def test_struct_without_fields_is_stored_anew_when_it_gets_one() -> None:
    """It was a boolean so far."""
    empty = pa.schema([pa.field("e", pa.struct([]))])
    field = pa.field("x", pa.int8())
    evolved, stays = evolve_schema(
        [SparkField("e", "boolean")],
        empty,
        pa.schema([pa.field("e", pa.struct([field]))]),
        AddField(("e",), field),
    )

    assert not stays
    assert evolved[0].type == struct_json([SparkField("x", "byte")])


def test_hidden_column_makes_room() -> None:
    """A user's column of its name goes before."""
    new = OLD.set(0, OLD.field(0).with_name("_SPARKPORT_rowid"))
    evolved, _ = evolve_schema(STORED, OLD, new, RenameColumn("a", "_SPARKPORT_rowid"))

    assert [field.name for field in evolved] == ["_SPARKPORT_rowid", "s", "__sparkport_rowid"]
