"""Runs SQL as any user of Spark would, without sparkport: `statements.py ADDRESS STATEMENT...`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Run the statements on a Spark Connect server."""
    session = SparkSession.builder.remote(sys.argv[1]).create()
    for statement in sys.argv[2:]:
        session.sql(statement).collect()
    session.stop()


if __name__ == "__main__":
    main()
