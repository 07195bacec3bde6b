"""What the log of a table says, version by version."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from pyarrow import fs

from sparkport.errors import NotFoundError
from sparkport.spark.delta.errors import CorruptLogError, VersionNotFoundError
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.storage.filesystem import ArrowStorage, LocalStorage
from tests.spark.delta.handwritten import HandwrittenTable, add, metadata, protocol, remove, vector

UUID = "ab^-aqEH.-t@S}K{vb[*k^"


class CountingStorage(LocalStorage):
    """The local disk, with a list of what was read."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def read(self, location: str) -> bytes:
        """Return a whole file."""
        self.reads.append(location.rpartition("/")[2])
        return super().read(location)


def names(files: tuple[DataFile, ...]) -> list[str]:
    """Return the last part of each file's path."""
    return [file.path.rpartition("/")[2] for file in files]


def test_files_are_added_and_removed(table: HandwrittenTable) -> None:
    """A version has the files that were added and not removed up to it."""
    table.create(add("a", 1), add("b", 2))
    table.commit(1, remove("a"), add("c", 4))
    log = DeltaLog(str(table.root))

    assert names(log.snapshot(0).files) == ["a", "b"]
    assert names(log.snapshot(1).files) == ["b", "c"]
    assert log.snapshot(0).row_count == 3
    assert log.snapshot(1).row_count == 6
    assert log.newest_version() == 1


def test_snapshot_without_version_is_the_newest(table: HandwrittenTable) -> None:
    """Every call sees what was committed before it."""
    table.create(add("a", 1))
    log = DeltaLog(str(table.root))
    before = log.snapshot()
    table.commit(1, add("b", 1))

    assert before.version == 0
    assert log.snapshot().version == 1
    assert log.header().version == 1


def test_only_new_commits_are_read_for_a_new_version(table: HandwrittenTable) -> None:
    """A snapshot is brought up to date from the last one, not built anew."""
    table.create()
    for version in range(1, 500):
        table.commit(version, add(f"f{version:03d}", 1))
    storage = CountingStorage()
    log = DeltaLog(str(table.root), storage)
    log.snapshot()
    table.commit(500, add("f500", 1))
    storage.reads.clear()
    snapshot = log.snapshot()
    log.snapshot()

    assert snapshot.row_count == 500
    assert storage.reads == ["00000000000000000500.json"]


def test_header_reads_no_more_commits_than_it_must(table: HandwrittenTable) -> None:
    """The search for protocol and metadata goes backwards, and ends where a header is known."""
    table.create()
    table.commit(1, add("a"))
    table.commit(2, protocol(minReaderVersion=2), metadata(name="new"))
    table.commit(3, add("b"))
    storage = CountingStorage()
    log = DeltaLog(str(table.root), storage)
    first = log.header()
    table.commit(4, add("c"))
    second = log.header()

    assert (first.version, first.metadata.name, first.protocol.min_reader) == (3, "new", 2)
    assert (second.version, second.metadata.name, second.protocol.min_reader) == (4, "new", 2)
    assert storage.reads == [
        "00000000000000000003.json",
        "00000000000000000002.json",
        "00000000000000000004.json",
    ]


def test_a_known_header_costs_no_listing(table: HandwrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is enough to find it; a commit that was replaced is read again."""
    table.create()
    log = DeltaLog(str(table.root))
    known = log.header()
    with monkeypatch.context() as patched:
        patched.setattr(log, "_names", pytest.fail)
        assert log.header(0) is known
    table.commit(0, protocol(), metadata(id="another"))

    assert log.header(0).metadata.table_id == "another"


def test_words_in_statistics_are_no_header(table: HandwrittenTable) -> None:
    """A value that looks like an action's name does not confuse the search."""
    table.create()
    table.commit(1, add("a", stats='{"numRecords":1,"minValues":{"protocol":"metaData"}}'))
    table.commit(2, {"commitInfo": {"operation": '"protocol"', "metaData": "x"}})

    assert DeltaLog(str(table.root)).header().protocol.min_reader == 1


def test_deletion_vector_changes_a_file_in_place(table: HandwrittenTable) -> None:
    """A file that comes back with a deletion vector is one file with fewer rows, whatever the order."""
    table.create(add("a", 10), add("b", 10))
    table.commit(1, remove("a"), add("a", 10, deletionVector=vector(UUID, 4)))
    table.commit(
        2,
        add("a", 10, deletionVector=vector("cd" + UUID[2:], 5)),
        remove("a", deletionVector=vector(UUID, 4)),
    )
    log = DeltaLog(str(table.root))

    assert [names(log.snapshot(version).files) for version in range(3)] == [["a", "b"]] * 3
    assert [log.snapshot(version).row_count for version in range(3)] == [20, 16, 15]
    assert log.snapshot(2).files[0].physical_rows == 10


def test_removal_of_a_former_state_keeps_the_file(table: HandwrittenTable) -> None:
    """A removal names the deletion vector too, and only takes the file with this one."""
    table.create(add("a", 10, deletionVector=vector(UUID, 4)))
    table.commit(1, remove("a"))
    table.commit(2, remove("a", deletionVector=vector(UUID, 4)))
    log = DeltaLog(str(table.root))

    assert names(log.snapshot(1).files) == ["a"]
    assert names(log.snapshot(2).files) == []
    assert log.snapshot(2).row_count == 0


def test_row_count_is_unknown_if_a_file_is_not_counted(table: HandwrittenTable) -> None:
    """A count that leaves out a file would be a lie."""
    table.create(add("a", 1), add("b"))

    assert DeltaLog(str(table.root)).snapshot().row_count is None


def test_row_count_is_found_wherever_it_stands(table: HandwrittenTable) -> None:
    """The number of records need not be the first of the statistics."""
    table.create(add("a", stats='{"minValues":{"numRecords":7},"numRecords":3}'))

    assert DeltaLog(str(table.root)).snapshot().row_count == 3


def test_files_are_ordered_by_time_and_name(table: HandwrittenTable) -> None:
    """The order is the same for every way to a version, so that a position means one file."""
    table.create(add("late", modificationTime=3_000), add("b"), add("a"))
    table.commit(1, add("middle", modificationTime=2_000))
    direct = DeltaLog(str(table.root)).snapshot(1)
    log = DeltaLog(str(table.root))
    log.snapshot(0)

    assert names(direct.files) == ["a", "b", "middle", "late"]
    assert log.snapshot(1) == direct


def test_transactions_keep_their_last_version(table: HandwrittenTable) -> None:
    """The newest version that an application committed is known."""
    table.create({"txn": {"appId": "etl", "version": 4}}, {"txn": {"appId": "other", "version": 1}})
    table.commit(1, {"txn": {"appId": "etl", "version": 5}})
    log = DeltaLog(str(table.root))

    assert log.snapshot(1).transactions == {"etl": 5, "other": 1}
    assert log.snapshot(0).transactions == {"etl": 4, "other": 1}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a%20b%25c.parquet", "{root}/a b%c.parquet"),
        ("stra%C3%9Fe=k%C3%B6ln/x.parquet", "{root}/straße=köln/x.parquet"),
        ("d=2024-01-01%2010%253A00/x.parquet", "{root}/d=2024-01-01 10%3A00/x.parquet"),
        ("/elsewhere/x%20y.parquet", "/elsewhere/x y.parquet"),
        ("file:/elsewhere/x%20y.parquet", "/elsewhere/x y.parquet"),
        ("file:///elsewhere/x.parquet", "/elsewhere/x.parquet"),
        ("s3://bucket/key%20x.parquet", "s3://bucket/key x.parquet"),
    ],
)
def test_paths_are_decoded_and_absolute(table: HandwrittenTable, written: str, expected: str) -> None:
    """Paths in the log are encoded URIs, relative to the table or not."""
    table.create(add(written))

    assert DeltaLog(str(table.root)).snapshot().files[0].path == expected.format(root=table.root)


@pytest.mark.parametrize("form", ["{}", "{}/", "file:{}", "file://{}"])
def test_root_may_be_a_path_or_a_uri(tmp_path: Path, form: str) -> None:
    """Spark names a table's folder in several ways."""
    table = HandwrittenTable(tmp_path / "with space" / "100% ä")
    table.create(add("x"))
    log = DeltaLog(form.format(table.root))

    assert log.snapshot().files[0].path == f"{table.root}/x"


def test_other_file_systems_say_the_same(table: HandwrittenTable) -> None:
    """What is not on the local disk is read through Arrow."""
    table.create(add("a", 1), at_ms=5_000)
    table.commit(1, add("b", 1), at_ms=7_000)
    local = DeltaLog(str(table.root))
    through_arrow = DeltaLog(str(table.root), ArrowStorage(fs.LocalFileSystem(), ""))

    assert through_arrow.snapshot() == local.snapshot()
    assert through_arrow.header(0) == local.header(0)
    assert through_arrow.version_at(6_000) == 0


def test_folder_without_log_is_no_table(tmp_path: Path) -> None:
    """A table that is not there is not found, by its name."""
    with pytest.raises(NotFoundError, match="table 'orders' not found"):
        DeltaLog(str(tmp_path / "sales" / "orders")).newest_version()


def test_empty_log_is_no_table(table: HandwrittenTable) -> None:
    """A log needs a version to be one."""
    table.write("_last_checkpoint", "{}")
    log = DeltaLog(str(table.root))

    for ask in (log.newest_version, log.header, log.snapshot, lambda: log.version_at(0)):
        with pytest.raises(NotFoundError, match="table 'orders' not found"):
            ask()


@pytest.mark.parametrize("version", [-1, 2, 99])
def test_missing_version_is_told_with_those_there_are(table: HandwrittenTable, version: int) -> None:
    """Whoever asks for a version that is not there learns which are."""
    table.create()
    table.commit(1)
    message = f"version {version} of table 'orders' not found: versions 0 to 1 are available"

    with pytest.raises(VersionNotFoundError, match=message):
        DeltaLog(str(table.root)).snapshot(version)
    with pytest.raises(VersionNotFoundError, match=message):
        DeltaLog(str(table.root)).header(version)


def test_missing_commit_is_damage(table: HandwrittenTable) -> None:
    """A log with a hole is told from a version that was cleaned up; versions before the hole are fine."""
    table.create(add("a", 1))
    table.commit(1, add("b", 1))
    table.commit(3, add("d", 1))
    log = DeltaLog(str(table.root))

    with pytest.raises(CorruptLogError, match="table 'orders' is damaged at version 2") as raised:
        log.snapshot()
    assert raised.value.version == 2
    assert str(table.root) not in str(raised.value)
    assert log.snapshot(1).row_count == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"add": {"path": ',
        '{"add": {"path": "x"}}\n',
        '{"add": {}}\n',
        "[]\n",
        '{"metaData": {"id": "1", "schemaString": "no"}}\n',
        '{"a": 1}, {"b": 2}\n',
        '{"add": {"path": 5, "size": 1, "modificationTime": 1}}\n',
        '{"add": {"path": "x", "size": [1], "modificationTime": 1}}\n',
        '{"add": {"path": "x", "size": 1, "modificationTime": Infinity}}\n',
        '{"add": {"path": "x", "size": 1, "modificationTime": 1, "stats": {}}}\n',
        '{"add": {"path": "x", "size": 1, "modificationTime": 1, "stats": "[]"}}\n',
        '{"add": {"path": "x", "size": 1, "modificationTime": 1, "partitionValues": []}}\n',
        '{"add": {"path": "x", "size": 1, "modificationTime": 1, "deletionVector": 5}}\n',
        '{"add": {"path": "x", "size": 1, "modificationTime": 1, "deletionVector": {"storageType": "u"}}}\n',
        '{"remove": {}}\n',
        '{"remove": {"path": null}}\n',
        '{"txn": {"appId": ["a"], "version": 1}}\n',
        '{"txn": {"appId": "a"}}\n',
        '{"protocol": {"minReaderVersion": null, "minWriterVersion": 2}}\n',
        '{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [{}]}}\n',
        '{"metaData": {"id": "1"}}\n',
        '{"metaData": {"id": "1", "schemaString": "{}", "configuration": {"a": []}}}\n',
    ],
)
def test_damaged_commit_is_named(table: HandwrittenTable, text: str) -> None:
    """A commit that cannot be decoded stops the reading of its version, not of those before."""
    table.create(add("a", 1))
    table.write("00000000000000000001.json", text)
    log = DeltaLog(str(table.root))

    with pytest.raises(CorruptLogError, match=r"at version 1: 0{19}1\.json cannot be decoded"):
        log.snapshot()
    assert log.snapshot(0).row_count == 1


def test_log_without_metadata_is_damaged(table: HandwrittenTable) -> None:
    """A table has columns and a protocol."""
    table.commit(0, protocol())

    with pytest.raises(CorruptLogError, match="no commit sets the table's metadata"):
        DeltaLog(str(table.root)).snapshot()
    with pytest.raises(CorruptLogError, match="no commit sets the table's metadata"):
        DeltaLog(str(table.root)).header()


def test_table_made_anew_is_not_mistaken_for_the_old_one(table: HandwrittenTable) -> None:
    """What was read of a dropped table is not told of its successor with the same versions."""
    table.create(add("old", 1))
    table.commit(1)
    log = DeltaLog(str(table.root))
    log.snapshot(0)
    log.snapshot(1)
    log.header(1)
    shutil.rmtree(table.root)
    table.commit(0, protocol(), metadata(name="second"), add("new", 2))
    table.commit(1)

    assert log.header(1).metadata.name == "second"
    assert names(log.snapshot(1).files) == ["new"]


def test_many_threads_get_the_same_snapshot(table: HandwrittenTable) -> None:
    """Threads that ask at once share one snapshot, which is built once."""
    table.create()
    for version in range(1, 30):
        table.commit(version, add(f"f{version}", 1))
    storage = CountingStorage()
    log = DeltaLog(str(table.root), storage)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(id(log.snapshot()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(storage.reads) == 30


def test_few_old_snapshots_are_kept(table: HandwrittenTable) -> None:
    """Time travel does not push the newest snapshot out of memory."""
    table.create()
    for version in range(1, 10):
        table.commit(version, add(f"f{version}", 1))
    storage = CountingStorage()
    log = DeltaLog(str(table.root), storage)
    newest = log.snapshot()
    for version in range(9):
        log.snapshot(version)
    storage.reads.clear()

    assert log.snapshot() is newest
    assert storage.reads == []
    assert len(log._snapshots._states) == 4
