"""Logs of tables that are dropped and made again while they are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparkport.spark.delta.errors import CorruptLogError
from sparkport.spark.delta.log.reader import DeltaLog


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaLog:
    """Return the log of a table that another one replaces when its log has been listed."""
    root, other = tmp_path / "t", tmp_path / "other"
    for number in range(4):
        write_deltalake(str(root), pa.table({"old": [number]}), mode="append")
    write_deltalake(str(other), pa.table({"new": [1]}))
    made = DeltaLog(str(root))
    list_names = made._storage.names

    def listed(folder: str) -> list[str]:
        names = list_names(folder)
        if other.exists():
            root.rename(tmp_path / "trash")
            other.rename(root)
        return names

    monkeypatch.setattr(made, "_storage", _Storage(made._storage, listed))
    return made


class _Storage:
    """A storage with another listing."""

    def __init__(self, storage: object, names: object) -> None:
        self._storage = storage
        self.names = names

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)


def test_the_new_table_is_read(log: DeltaLog) -> None:
    """A reader that comes between two tables of one name finds the new one, and no damage."""
    assert [field.name for field in log.snapshot().metadata.fields] == ["new"]


def test_the_header_of_the_new_table_is_read(log: DeltaLog) -> None:
    """The same for what a listing needs."""
    header = log.header()

    assert (header.version, [field.name for field in header.metadata.fields]) == (0, ["new"])


def test_a_commit_that_stays_away_is_damage(tmp_path: Path) -> None:
    """A file that is listed and can never be read is told as such."""
    root = tmp_path / "t"
    write_deltalake(str(root), pa.table({"n": [1]}))
    (root / "_delta_log" / f"{1:020d}.json").symlink_to(tmp_path / "nothing")
    with pytest.raises(CorruptLogError, match="is missing"):
        DeltaLog(str(root)).snapshot()
