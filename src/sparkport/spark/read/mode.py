"""The ways that rows take from storage to the server."""

from __future__ import annotations

import enum

DEFAULT_LOCAL_SCAN_BYTES = 256 << 20
"""The Parquet that a scan in the server may read."""


class DirectReadMode(enum.StrEnum):
    """Whether DuckDB reads data files by itself."""

    AUTO = "auto"
    """Where the client sees the files of a warehouse on this machine as the server does."""
    ALWAYS = "always"
    """Always: every client sees the files under the same paths."""
    NEVER = "never"
    """Never: the server sends the rows."""


class ReadMode(enum.StrEnum):
    """How rows are read."""

    AUTO = "auto"
    """By Arrow inside Spark's tasks where the table allows, else by Spark SQL."""
    SQL = "sql"
    """Always by Spark SQL."""
