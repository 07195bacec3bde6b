"""The first version of a table, without Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sparkport.catalog import TableConstraints
from sparkport.spark.ddl import first_version
from sparkport.spark.ddl.create import new_table
from sparkport.spark.ddl.first_version import write_first_version
from sparkport.spark.delta.log.reader import DeltaLog

TABLE = new_table("", pa.schema([("a", pa.int64()), ("b", pa.string())]), TableConstraints(), "words")


def write(root: Path) -> bool:
    """Make the table in a folder."""
    return write_first_version(str(root), TABLE.fields, TABLE.comment, TABLE.properties)


def test_others_find_an_empty_table(tmp_path: Path) -> None:
    """Another reader of Delta finds the columns, the comment and no rows."""
    assert write(tmp_path / "t")

    found = DeltaTable(str(tmp_path / "t"))
    assert found.version() == 0
    assert [field.name for field in found.schema().fields] == ["a", "b", "_sparkport_rowid"]
    assert found.metadata().description == "words"
    assert DeltaLog(str(tmp_path / "t")).snapshot().files == ()


def test_of_many_at_once_one_makes_the_table(tmp_path: Path) -> None:
    """The first to give the version its name makes the table; the others are told, and leave nothing."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(write, [tmp_path / "t"] * 8))

    assert sorted(made) == [False] * 7 + [True]
    assert sorted(path.name for path in (tmp_path / "t" / "_delta_log").iterdir()) == [
        f"{0:020d}.crc",
        f"{0:020d}.json",
    ]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the commit cannot be written there is no folder either."""

    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(first_version, "link_commit", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "t")

    assert list(tmp_path.iterdir()) == []
