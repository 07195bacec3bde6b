"""The tables of a query as the transaction of its call sees them."""

from __future__ import annotations

from collections.abc import Sequence

from sparkport.catalog.call import Call
from sparkport.errors import PreconditionError
from sparkport.spark.commit.staging import new_folder
from sparkport.spark.delta.commit.private_log import PrivateLog
from sparkport.spark.query.tables import NamedTable, QueryTable
from sparkport.spark.storage.temp_folders import hold
from sparkport.spark.table import DeltaTable

Columns = tuple[str, str, str, int]
"""What the columns of a table go by: schema and name, its id and a version."""


def bound_table(call: Call, table: DeltaTable, named: NamedTable) -> tuple[QueryTable, Columns]:
    """Return what a name in a query stands for, and what its columns go by.

    Within a staged transaction that is a log of its own, with what the transaction sees now; where the query
    gives a version it is the table itself.
    """
    versions = table.versions
    transactions = versions.engine.transactions
    if named.is_versioned or not transactions.is_staged(call):
        header = versions.header()
        table_id = header.metadata.table_id
        columns = (table.schema, table.name, table_id, header.version)
        return QueryTable(table.schema, table.name, table.root, table_id), columns
    state = versions.at(call, None).state
    staging = versions.engine.staging
    hold(staging)
    log = transactions.private_log(call, state, lambda: PrivateLog(new_folder(staging), table.root))
    table_id = state.metadata.table_id
    seen = QueryTable(table.schema, table.name, log.folder, table_id, is_private=True)
    return seen, (table.schema, table.name, table_id, state.version)


def check_versions(tables: Sequence[QueryTable]) -> None:
    """Raise PreconditionError for a query that reads a table at a version and as a transaction sees it."""
    private = {table.key for table in tables if table.is_private}
    for table in tables:
        if not table.is_private and table.key in private:
            raise PreconditionError(
                f"a query in a transaction cannot read table '{table.schema}.{table.name}' both at a version"
                " and as the transaction sees it; use two queries"
            )
