"""What a view is: a query, the columns that it had when the view was made, and its name."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkport.errors import InvalidRequestError
from sparkport.spark.delta.log import members
from sparkport.spark.delta.log.spark_fields import SparkField, decode_struct, struct_json
from sparkport.spark.sql_names import quoted
from sparkport.spark.types import arrow_field

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view of a schema.

    Its query names each table with its schema. `sources` are the names that the query gives to the
    `fields` of the view.
    """

    schema: str
    name: str
    sql: str
    sources: tuple[str, ...]
    fields: tuple[SparkField, ...]
    comment: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from other views and tables: Spark ignores letter case."""
        return self.schema.lower(), self.name.lower()

    @property
    def path(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name

    @property
    def subquery(self) -> str:
        """The view as a query in parentheses: whatever tables have become, it has its own columns."""
        columns = ", ".join(
            f"{quoted(source)} AS {quoted(field.name)}"
            for source, field in zip(self.sources, self.fields, strict=True)
        )
        return f"(SELECT {columns} FROM (\n{self.sql}\n))"  # noqa: S608  (names are quoted)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as clients see them."""
        return _arrow_schema(json.dumps(struct_json(self.fields)))

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def encode(view: ViewDefinition) -> bytes:
    """Return a view as it is kept in a file."""
    value = {
        "format": _FORMAT,
        "schema": view.schema,
        "name": view.name,
        "sql": view.sql,
        "sources": list(view.sources),
        "columns": struct_json(view.fields),
        "comment": view.comment,
    }
    return json.dumps(value, indent=1).encode()


def decode(data: bytes) -> ViewDefinition:
    """Return the view that a file has. Raises ValueError for what no server has written."""
    value = json.loads(data)
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise ValueError("it has another format")
    view = ViewDefinition(
        members.text(value, "schema"),
        members.text(value, "name"),
        members.text(value, "sql"),
        tuple(members.texts(value, "sources")),
        decode_struct(value.get("columns")),
        members.text(value, "comment"),
    )
    if len(view.sources) != len(view.fields):
        raise ValueError("its columns do not fit together")
    return view


def named_fields(
    fields: Sequence[SparkField], names: Sequence[tuple[str, str | None]]
) -> tuple[SparkField, ...]:
    """Return the columns of a query by the names and with the comments that a view gives them.

    Raises InvalidRequestError for a wrong number of names, and for equal ones.
    """
    if names and len(names) != len(fields):
        raise InvalidRequestError(f"the view names {len(names)} columns, but its query has {len(fields)}")
    made = tuple(
        SparkField(name, field.type, field.nullable, _commented(field, comment))
        for field, (name, comment) in zip(fields, names or [(f.name, None) for f in fields], strict=True)
    )
    lower = [field.name.lower() for field in made]
    twice = next((field.name for field in made if lower.count(field.name.lower()) > 1), None)
    if twice is not None:
        raise InvalidRequestError(f"the view has two columns named '{twice}': give one another name")
    return made


def _commented(field: SparkField, comment: str | None) -> dict[str, object]:
    return {**field.metadata, **({"comment": comment} if comment else {})}


@functools.lru_cache(maxsize=1024)
def _arrow_schema(columns: str) -> pa.Schema:
    return pa.schema([arrow_field(field) for field in decode_struct(json.loads(columns))])
