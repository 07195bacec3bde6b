"""Replace a table by another one that was filled beside it."""

from __future__ import annotations

import secrets
from contextlib import suppress

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DropTableOptions, DynamicSchema, DynamicTable, RenameTable
from sparkport.catalog.guards import Privilege, check, unguarded
from sparkport.catalog.lookup import find_table
from sparkport.errors import SparkportError, UnsupportedOperationError


def staged_name(name: str) -> str:
    """Return a new name for the table that is to replace one of this name."""
    return f"{name}__new_{secrets.token_hex(8)}"


def replace_table(call: Call, schema: DynamicSchema, staged: str, name: str) -> None:
    """Let the table `staged` take the name of another, which is dropped; for a moment there is neither.

    If that is not possible, the table `staged` is dropped and the other stays as it was. Raises
    UnsupportedOperationError and PermissionDeniedError.
    """
    # The rows are there: a client that leaves now cannot stop the change of names half way.
    rest = call.detached()
    try:
        table = unguarded(find_table(call, schema, staged), Privilege.ALTER)
        if not isinstance(table, DynamicTable):
            raise UnsupportedOperationError("table", name, "replacing its rows")
        check(rest, Privilege.CREATE, schema.name, name)
        schema.drop_table(rest, name, DropTableOptions(ignore_not_found=True))
    except SparkportError:
        with suppress(SparkportError):  # the first error tells more
            schema.drop_table(rest, staged, DropTableOptions(ignore_not_found=True))
        raise
    table.alter(rest, RenameTable(name))
