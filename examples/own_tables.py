"""Serve your own tables: `sparkport serve --app own_tables:catalog` or run this file."""

import pyarrow as pa

import sparkport


def countdown() -> pa.RecordBatchReader:
    """Make rows afresh for every scan."""
    batches = (pa.record_batch({"n": [n]}) for n in range(10, 0, -1))
    return pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches)


catalog = (
    sparkport.CatalogBuilder()
    .schema("demo", comment="Things to try")
    .table("planets", pa.table({"name": ["Mercury", "Venus", "Earth"], "moons": [0, 0, 1]}))
    .table("countdown", arrow_schema=pa.schema([("n", pa.int64())]), reader=countdown)
    .build()
)

if __name__ == "__main__":
    sparkport.Server({"own": catalog}).serve()  # prints how to attach, with the token
