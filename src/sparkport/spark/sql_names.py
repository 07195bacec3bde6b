"""Names in Spark SQL."""

from __future__ import annotations


def quoted(*path: str) -> str:
    """Return a name, or a path of names, so that Spark takes it for nothing else."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def staged_name(name: str) -> str:
    """Return the name of a column in a staged file.

    Spark hands the names of Parquet columns to its tasks through Hadoop's settings, which replace
    `${user.name}` and the like: such a column would be read as null.
    """
    return name.replace("${", "$\u2060{")
