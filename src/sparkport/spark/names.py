"""Names in Spark SQL."""

from __future__ import annotations


def quoted(*path: str) -> str:
    """Return a name, or a path of names, so that Spark takes it for nothing else."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)
