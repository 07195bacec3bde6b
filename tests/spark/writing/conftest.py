"""A catalog to write to, with a schema of its own for each test."""

from __future__ import annotations

from tests.spark.ddl.conftest import catalog, schema

__all__ = ["catalog", "schema"]
