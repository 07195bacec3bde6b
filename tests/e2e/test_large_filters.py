"""Filters that are too long to be read: DuckDB applies them itself, so that they may be left aside."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.flight_client import Flight, path_descriptor, table_of

INTEGER = {"id": "BIGINT", "type_info": None}
FILTER = {
    "filters": [
        {
            "expression_class": "BOUND_COMPARISON",
            "type": "COMPARE_EQUAL",
            "left": {
                "expression_class": "BOUND_COLUMN_REF",
                "type": "BOUND_COLUMN_REF",
                "return_type": INTEGER,
                "binding": {"table_index": 0, "column_index": 0},
                "depth": 0,
            },
            "right": {
                "expression_class": "BOUND_CONSTANT",
                "type": "VALUE_CONSTANT",
                "value": {"type": INTEGER, "is_null": False, "value": 2},
            },
        }
    ],
    "column_binding_names_by_index": ["id"],
}


@pytest.mark.parametrize(("length", "expected"), [(0, [2]), (4 << 20, [2]), ((4 << 20) + 1, [1, 2, 3])])
def test_filter_beyond_the_limit_is_left_to_duckdb(client: Flight, length: int, expected: list[int]) -> None:
    """Up to 4 MiB a filter is applied by the server; a longer one is no error, and no row is missing."""
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = path_descriptor("db1", "sales", "orders")
    client.create_schema("db1", "sales")
    client.create_table("db1", "sales", "orders", rows.schema)
    client.insert(table, rows)
    tickets = client.scan(table, [0], filters=json.dumps(FILTER).ljust(length))
    read = [row for ticket in tickets for row in table_of(client.get(ticket))["id"].to_pylist()]

    assert read == expected
