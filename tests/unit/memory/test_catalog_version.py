from __future__ import annotations

import time

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import CreateSchemaOptions, CreateTableOptions, DropTableOptions
from sparkport.memory import MemoryCatalog


def test_every_change_raises_the_version() -> None:
    """Clients keep prepared plans, with their transaction and statistics, while the version stands."""
    catalog, call = MemoryCatalog(), Call()
    versions = [catalog.catalog_version(call).version]
    schema = catalog.create_schema(call, "s", CreateSchemaOptions())
    versions.append(catalog.catalog_version(call).version)
    rows = pa.table({"v": [1]})
    table = schema.create_table(call, "t", rows.schema, CreateTableOptions())
    versions.append(catalog.catalog_version(call).version)
    table.insert(call, rows.to_reader())
    versions.append(catalog.catalog_version(call).version)
    table.delete(call, pa.array([0]))
    versions.append(catalog.catalog_version(call).version)
    schema.drop_table(call, "t", DropTableOptions())
    versions.append(catalog.catalog_version(call).version)

    assert versions == sorted(set(versions))
    assert not catalog.catalog_version(call).is_fixed


def test_an_expired_transaction_raises_the_version() -> None:
    """A prepared statement keeps its transaction, and gets another one when the version rises."""
    catalog, call = MemoryCatalog(transaction_idle_seconds=0.0), Call()
    before = catalog.catalog_version(call).version
    catalog.transactions.begin_transaction(call)
    time.sleep(0.001)

    assert catalog.catalog_version(call).version == before + 1
