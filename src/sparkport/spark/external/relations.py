"""Tables and views of a Spark catalog: what is known of each, and how it is read."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from sparkport.errors import PreconditionError, SparkportError
from sparkport.spark.delta.log.spark_fields import SparkType, struct_fields
from sparkport.spark.engine import Engine
from sparkport.spark.external.show_commands import Description, attempt, describe, quote_for_sql
from sparkport.spark.model.columns import ROWID_KEY, TableColumn, column_of, text_column
from sparkport.spark.storage.filesystem import location_of
from sparkport.spark.types.storage import is_year_month, leaves

_COLLATIONS = "__COLLATIONS"
# The catalog decides which commits of such a table count, not the log in its folder.
_CATALOG_MANAGED = frozenset({"catalogManaged", "catalogOwned-preview"})


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view that can be read.

    With a `root` it is a Delta table whose log is the truth about it, and `version` the newest there.
    Without, `spark_schema` has its columns in JSON.
    """

    path: tuple[str, ...]
    provider: str
    comment: str
    root: str | None = None
    version: int = 0
    spark_schema: str = ""
    is_view: bool = False

    @property
    def name(self) -> str:
        """The name that Spark knows it by, quoted."""
        return quote_for_sql(*self.path)

    def __str__(self) -> str:
        return ".".join(self.path[1:])


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A table or view that is listed and cannot be read."""

    path: tuple[str, ...]
    reason: str

    def error(self) -> SparkportError:
        """Return the error for whoever asks for it."""
        return PreconditionError(f"table '{'.'.join(self.path[1:])}' cannot be read: {self.reason}")


def read_relation(engine: Engine, path: tuple[str, ...], session: SparkSession) -> Relation | Unreadable:
    """Return what a table or view is, without running a job."""
    match attempt(functools.partial(_read, engine, path, session)):
        case SparkportError() as error:
            return Unreadable(path, str(error))
        case relation:
            return relation


@functools.lru_cache(maxsize=1024)
def relation_columns(spark_schema: str) -> tuple[TableColumn, ...]:
    """Return the columns for a Spark schema in JSON; ids that sparkport keeps in a table are not shown."""
    return tuple(
        text_column(field) if _is_shown_as_text(field.type) else column_of(field)
        for field in struct_fields(json.loads(spark_schema))
        if ROWID_KEY not in field.metadata
    )


def _is_shown_as_text(spark_type: SparkType) -> bool:
    """Return whether Spark cannot make Arrow of a type for what is inside of it: nothing, or months."""
    if isinstance(spark_type, str):
        return False
    return any(leaf == "void" or is_year_month(leaf) for leaf in leaves(spark_type))


@functools.lru_cache(maxsize=1024)
def comparable_columns(spark_schema: str) -> tuple[TableColumn, ...]:
    """Return the columns whose values Spark compares as clients do, byte by byte."""
    fields = struct_fields(json.loads(spark_schema))
    collated = {field.name for field in fields if _COLLATIONS in field.metadata}
    return tuple(column for column in relation_columns(spark_schema) if column.logical not in collated)


def _read(engine: Engine, path: tuple[str, ...], session: SparkSession) -> Relation:
    name = quote_for_sql(*path)
    described = describe(session, name)
    root = location_of(described.location)
    version = _delta_version(engine, described, root)
    if version is not None:
        return Relation(path, described.provider, described.comment, root, version)
    # Spark keeps what it once knew of a table; others may have changed it.
    session.catalog.refreshTable(name)
    schema = session.table(name).schema.json()
    return Relation(
        path, described.provider, described.comment, spark_schema=schema, is_view=described.is_view
    )


def _delta_version(engine: Engine, described: Description, root: str) -> int | None:
    """Return the newest version of a Delta table if its log can be read from here, without its catalog."""
    if described.provider != "delta" or not described.location:
        return None
    try:
        header = engine.log(root).header()
    except (SparkportError, OSError, pa.ArrowException):
        return None  # Spark may know how to get there
    features = header.protocol.reader_features | header.protocol.writer_features
    return None if features & _CATALOG_MANAGED else header.version
