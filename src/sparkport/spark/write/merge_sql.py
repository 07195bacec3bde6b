"""Changes of rows by their ids, as Spark statements: each is one Delta commit.

Delta chooses by itself the version that such a statement is based on. Where that is not the one it was
planned for, and a row has changed in between, the statement itself notices and fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from sparkport.spark.delta.log.spark_fields import SparkField, SparkType
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.errors import CHANGED
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.sql_names import literal, quoted, staged_name

_OLD = "_sparkport_old"
_ID = "_sparkport_id"
_PLAIN_TEXT = ("variant", "interval")


@dataclass(frozen=True, slots=True)
class Merge:
    """The rows to change: staged ids, for UPDATE with new values, and all columns of the planned version."""

    root: str
    version: int
    staged: str
    id_name: str
    names: Sequence[str]
    columns: Sequence[SparkField]
    ids: Ids


def update(merge: Merge, session: SparkSession) -> CommitResult:
    """Set columns of the rows to the values that are staged for them."""
    settings = ", ".join(
        f"t.{quoted(name)} = IF({_is_same(merge)}, s.{quoted(staged_name(name))}, {_failure()})"
        for name in merge.names
    )
    return _run(merge, f"WHEN MATCHED THEN UPDATE SET {settings}", session)


def delete(merge: Merge, session: SparkSession) -> CommitResult:
    """Remove the rows."""
    return _run(merge, f"WHEN MATCHED AND IF({_is_same(merge)}, true, {_failure()}) THEN DELETE", session)


def _run(merge: Merge, action: str, session: SparkSession) -> CommitResult:
    target, source = f"t.{quoted(merge.id_name)}", f"s.{quoted(staged_name(merge.id_name))}"
    # The range lets Delta skip files: it does not derive one from the staged ids.
    near = f"BETWEEN {merge.ids.min()} AND {merge.ids.max()}"
    table = f"delta.{quoted(merge.root)}"
    old = (
        f"SELECT {quoted(merge.id_name)} AS {_ID}, {_comparable('', merge.columns)} AS {_OLD}"  # noqa: S608
        f" FROM {table} VERSION AS OF {merge.version} WHERE {quoted(merge.id_name)} {near}"
    )
    staged = f"SELECT * FROM parquet.{quoted(merge.staged)}"  # noqa: S608  (names are quoted)
    rows = f"SELECT n.*, o.{_OLD} FROM ({staged}) n LEFT JOIN ({old}) o ON n.{source[2:]} = o.{_ID}"  # noqa: S608
    columns = ", ".join(quoted(column.name) for column in merge.columns)
    gone = ", ".join(_failure() for _ in merge.columns)
    session.sql(
        f"MERGE INTO {table} AS t USING ({rows}) AS s ON {target} = {source} AND {target} {near}"  # noqa: S608
        f" {action} WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({gone})"
    ).collect()
    return CommitResult()


def _is_same(merge: Merge) -> str:
    return f"{_comparable('t.', merge.columns)} <=> s.{_OLD}"


def _comparable(prefix: str, columns: Sequence[SparkField]) -> str:
    """Return a row as one value that can be compared with another."""
    values = (f"{prefix}{quoted(column.name)}" for column in columns)
    texts = (
        f"CAST({value} AS STRING)" if _is_incomparable(column.type) else value
        for value, column in zip(values, columns, strict=True)
    )
    named = (f"{literal(str(number))}, {text}" for number, text in enumerate(texts))
    return f"named_struct({', '.join(named)})"


def _is_incomparable(spark_type: SparkType) -> bool:
    """Return whether values of a type, or those within them, have no order in Spark."""
    if isinstance(spark_type, str):
        return spark_type.startswith(_PLAIN_TEXT)
    match spark_type["type"]:
        case "map":
            return True
        case "array":
            return _is_incomparable(spark_type["elementType"])
        case "struct":
            return any(_is_incomparable(field["type"]) for field in spark_type["fields"])
        case _:
            return False


def _failure() -> str:
    return f"raise_error({literal(CHANGED)})"
