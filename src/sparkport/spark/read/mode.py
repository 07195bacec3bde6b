"""The ways that rows take from storage to the server."""

from __future__ import annotations

import enum


class ReadMode(enum.StrEnum):
    """How rows are read."""

    AUTO = "auto"
    """By Arrow inside Spark's tasks where the table allows, else by Spark SQL."""
    SQL = "sql"
    """Always by Spark SQL."""
