"""Finding things by name: these raise where the contracts return None."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.guards import GuardedTable
from sparkport.catalog.scan import SchemaRequest, TimePoint
from sparkport.catalog.tables import Catalog, DynamicSchemaTable, Schema, Table, VersionedTable
from sparkport.errors import InvalidRequestError, NotFoundError

FUNCTIONS_SCHEMA = "sparkport"
"""The schema with the functions of a server and its engine."""


@dataclass(frozen=True, slots=True)
class TablePath:
    """The address of a table; `catalog` is the name the client attached."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def find_schema(call: Call, catalog: Catalog, name: str) -> Schema:
    """Return the schema, whatever the letter case of `name`."""
    schema = catalog.schema(call, name)
    if schema is not None:
        return schema
    schemas = catalog.schemas(call)
    return same_but_for_case(name, schemas) or _missing("schema", name, schemas)


def find_table(call: Call, schema: Schema, name: str) -> Table:
    """Return the table, whatever the letter case of `name`."""
    table = schema.table(call, name)
    if table is None:
        tables = schema.tables(call)
        table = same_but_for_case(name, tables) or _missing("table", f"{schema.name}.{name}", tables)
    call.meter.tables[f"{schema.name}.{table.name}"] = (
        table.policies if isinstance(table, GuardedTable) else ()
    )
    return table


def find_column(arrow_schema: pa.Schema, name: str) -> int:
    """Return the index of a column, whatever the letter case of `name`."""
    index = arrow_schema.get_field_index(name)
    if index >= 0:
        return int(index)
    for index, column in enumerate(arrow_schema.names):
        if column.lower() == name.lower():
            return index
    raise NotFoundError("column", name, arrow_schema.names)


def current_arrow_schema(call: Call, table: Table, time_point: TimePoint | None = None) -> pa.Schema:
    """Return the columns of a table as of a time point, however the table provides them."""
    if isinstance(table, VersionedTable):
        if time_point is None and call.transaction_id is None:
            newest = table.arrow_schema
            if newest is not None:
                return newest  # taking a snapshot may mean to read a log
        return table.snapshot(call, time_point).arrow_schema
    if isinstance(table, DynamicSchemaTable):
        return table.schema_for_request(call, SchemaRequest(time_point=time_point))
    if time_point is not None:
        raise InvalidRequestError(f"table '{table.name}' does not support time travel")
    if table.arrow_schema is None:
        raise TypeError(f"table {table.name!r} has no schema but is not a DynamicSchemaTable")
    return table.arrow_schema


def same_but_for_case(name: str, things: Iterable[N]) -> N | None:
    """Return the thing of that name in any letter case, or None."""
    return next((thing for thing in things if thing.name.lower() == name.lower()), None)


def _missing(kind: str, name: str, things: Iterable[_Named]) -> NoReturn:
    raise NotFoundError(kind, name, [thing.name for thing in things])


def only_schema(schemas: Sequence[Schema]) -> Schema | None:
    """Return the schema of a catalog that has one, beside the one with functions that the server adds."""
    own = [schema for schema in schemas if schema.name.lower() != FUNCTIONS_SCHEMA]
    return own[0] if len(own) == 1 else None
