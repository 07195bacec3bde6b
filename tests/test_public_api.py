"""The public edge: what is exported is what is there, and importing it is cheap."""

from __future__ import annotations

import subprocess
import sys
import types

import sparkport
import sparkport.catalog


def public(module: types.ModuleType) -> set[str]:
    """Return the names that a module really offers."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "TYPE_CHECKING"
    }


def test_package_exports_what_is_there() -> None:
    """`sparkport.__all__` is complete and true; its names are imported when they are first used."""
    assert all(getattr(sparkport, name) for name in sparkport.__all__)
    assert set(sparkport.__all__) - {"__version__", "errors"} == public(sparkport)
    assert set(sparkport.__all__) <= set(dir(sparkport))
    assert sparkport.Lakehouse.__module__ == "sparkport.app.lakehouse"
    assert not hasattr(sparkport, "Nothing")


def test_catalog_exports_what_is_there() -> None:
    """`sparkport.catalog.__all__` is complete, true and sorted."""
    assert set(sparkport.catalog.__all__) == public(sparkport.catalog)
    assert len(set(sparkport.catalog.__all__)) == len(sparkport.catalog.__all__)


def test_import_starts_no_jvm() -> None:
    """Importing sparkport imports no Spark, and starts no process."""
    code = (
        "import os, sys, sparkport, sparkport.catalog, sparkport.memory\n"
        "heavy = {'pyspark', 'py4j', 'delta', 'pandas'} & {name.split('.')[0] for name in sys.modules}\n"
        "path = f'/proc/self/task/{os.getpid()}/children'\n"
        "children = open(path).read() if os.path.exists(path) else ''\n"
        "print(sorted(heavy), children.split())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "[] []\n"
    assert done.stderr == ""
