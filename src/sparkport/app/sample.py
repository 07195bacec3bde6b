"""A small catalog to try things on."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import CreateSchemaOptions, CreateTableOptions, DynamicCatalog, DynamicSchema
from sparkport.catalog.dml import InsertableTable


def load_sample(catalog: DynamicCatalog) -> None:
    """Make a schema `sales` with customers and their orders."""
    call = Call()
    sales = catalog.create_schema(call, "sales", CreateSchemaOptions(comment="A small shop to try things on"))
    assert isinstance(sales, DynamicSchema)
    for name, rows, comment in (
        ("customers", _customers(), "Who buys"),
        ("orders", _orders(), "What was bought, by whom and when"),
    ):
        options = CreateTableOptions(comment=comment)
        table = sales.create_table(call, name, rows.schema, options)
        assert isinstance(table, InsertableTable)
        table.insert(call, rows.to_reader())


def _customers() -> pa.Table:
    names = ["Ada", "Blaise", "Carl", "Emmy", "Grace", "Kurt", "Leonhard", "Sofia"]
    cities = ["London", "Paris", "Göttingen", "Erlangen", "New York", "Vienna", "Basel", "Stockholm"]
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string())])
    return pa.table([list(range(1, len(names) + 1)), names, cities], schema=schema)


def _orders() -> pa.Table:
    count = 1000
    days = [date(2026, 1, 1 + i % 28) for i in range(count)]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("customer_id", pa.int64()),
            ("ordered_on", pa.date32()),
            ("product", pa.string()),
            ("quantity", pa.int32()),
            ("price", pa.decimal128(10, 2)),
        ]
    )
    products = ["notebook", "pencil", "ruler", "compass", "slide rule"]
    columns = [
        pa.array(range(1, count + 1), pa.int64()),
        pa.array([1 + i * 7 % 8 for i in range(count)], pa.int64()),
        pa.array(days, pa.date32()),
        pa.array([products[i * 3 % 5] for i in range(count)]),
        pa.array([1 + i % 4 for i in range(count)], pa.int32()),
        pa.array([Decimal(199 + i * 37 % 2000) / 100 for i in range(count)], pa.decimal128(10, 2)),
    ]
    return pa.table(columns, schema=schema)
