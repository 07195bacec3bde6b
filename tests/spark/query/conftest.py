"""The catalog of the functions' tests: it has `query` switched on."""

from __future__ import annotations

from tests.spark.functions.conftest import catalog, schema

__all__ = ["catalog", "schema"]
