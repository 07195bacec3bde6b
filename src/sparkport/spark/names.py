"""Names in Spark SQL."""

from __future__ import annotations


def quoted(*path: str) -> str:
    """Return a name, or a path of names, so that Spark takes it for nothing else."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
