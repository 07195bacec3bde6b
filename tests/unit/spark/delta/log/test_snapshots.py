from __future__ import annotations

from sparkport.spark.delta.log.actions import DataFile, Metadata, Protocol
from sparkport.spark.delta.log.snapshots import DeltaSnapshot


def snapshot(version: int, *paths: str) -> DeltaSnapshot:
    """Return a version with these files."""
    files = tuple(DataFile(path, {}, 1, 1) for path in paths)
    metadata = Metadata("id", None, None, ())
    return DeltaSnapshot(version, 0, Protocol(1, 2), metadata, files, {}, None)


def test_only_a_file_that_a_later_version_lacks_may_be_vacuumed() -> None:
    """VACUUM deletes what the newest version does not need; another missing file was lost."""
    old = snapshot(1, "a", "b")

    assert old.has_files_removed_by(snapshot(2, "b", "c"))
    assert not old.has_files_removed_by(snapshot(2, "a", "b", "c"))
    assert not old.has_files_removed_by(snapshot(1, "a"))
