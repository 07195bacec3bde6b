"""A small client: tables of a sparkport server from Python, without DuckDB.

>>> with connect("grpc://127.0.0.1:8815", token="...") as client:
...     client.create_table("sales", "stock", pa.schema([("item", pa.string()), ("pieces", pa.int32())]))
...     client.insert("sales", "stock", pa.table({"item": ["pencil"], "pieces": [10]}))
...     client.scan("sales", "stock").read_all()
"""

from sparkport.client.client import Client, WriteResult, connect

__all__ = ["Client", "WriteResult", "connect"]
