"""The name of a table as the argument of a function."""

from __future__ import annotations

import re
from typing import Any

from sparkport.catalog.call import Call
from sparkport.catalog.guards import Privilege, unguarded, view_of
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError, UnsupportedOperationError
from sparkport.spark.table import DeltaTable
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA

_PART = re.compile(r"""\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^\s."`](?:[^."`]*[^\s."`])?))\s*(\.|$)""")


def split_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name such as `sales."the orders"`. Raises InvalidRequestError."""
    parts: list[str] = []
    position, is_open = 0, True
    while is_open:
        part = _PART.match(text, position)
        if part is None:
            raise InvalidRequestError(f"{text!r} is not the name of a table: write schema.table")
        double, back, bare, dot = part.groups()
        parts.append(double.replace('""', '"') if double else back.replace("``", "`") if back else str(bare))
        position, is_open = part.end(), dot == "."
    return tuple(parts)


def schema_and_table(text: str) -> tuple[str, str]:
    """Return the schema and the table of a name; without a schema it is in the default one."""
    match split_name(text):
        case (table,):
            return DEFAULT_SCHEMA, table
        case (schema, table):
            return schema, table
        case _:
            raise InvalidRequestError(f"{text!r} has too many parts for a table: write schema.table")


def delta_table(
    call: Call,
    catalog: Catalog,
    name: Any,  # noqa: ANN401  (what a client sent)
    privilege: Privilege = Privilege.SELECT,
) -> DeltaTable:
    """Return the table of a catalog that an argument names, if the caller may do this to all of it.

    Raises NotFoundError with a hint: a name is looked up in the catalog, so that no folder
    outside the warehouse can be meant. Raises PermissionDeniedError.
    """
    if not isinstance(name, str):
        raise InvalidRequestError("the name of the table is NULL")
    schema, table = schema_and_table(name)
    seen = find_table(call, find_schema(call, view_of(call, catalog), schema), table)
    found = unguarded(seen, privilege)
    if not isinstance(found, DeltaTable):
        raise UnsupportedOperationError("table", f"{schema}.{table}", "functions of Delta tables")
    return found
