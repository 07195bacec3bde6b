"""The parent of Spark's Python workers on the server's own machine.

Spark runs this module instead of its own and lets each worker forget what it knows of
the import path before every task. Where that has archives, as Spark's usual path has, each
of them is read again then, and that is most of the time of a small task: so they go, and
PySpark is taken from where it is installed. What a task needs is imported once, before the
workers are forked, and kept out of the garbage collection that each worker makes after every
task: looking through it would take longer than a small task itself.
"""

from __future__ import annotations

import gc
import sys

_ARCHIVES = (".zip", ".jar", ".egg")


def main() -> None:
    """Forget the archives and become PySpark's daemon."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(_ARCHIVES)]
    for entry in list(sys.path_importer_cache):
        if any(archive in entry for archive in _ARCHIVES):
            del sys.path_importer_cache[entry]

    import pyarrow.dataset  # noqa: PLC0415  (not before the archives are gone)
    from pyspark.daemon import manager  # noqa: PLC0415

    from sparkport.spark.worker import parquet  # noqa: PLC0415

    del parquet, pyarrow

    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
