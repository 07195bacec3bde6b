"""Which version was the newest at a time."""

from __future__ import annotations

import pytest

from sparkport.errors import NotFoundError
from sparkport.spark.delta.errors import CorruptLogError
from sparkport.spark.delta.log.reader import DeltaLog
from tests.spark.delta.handwritten import HandwrittenTable, metadata, protocol

IN_COMMIT = protocol(
    minReaderVersion=1, minWriterVersion=7, writerFeatures=["inCommitTimestamp", "appendOnly"]
)


def own_time(moment_ms: int) -> dict[str, object]:
    """Return what a commit says of its own time."""
    return {"commitInfo": {"inCommitTimestamp": moment_ms, "operation": "WRITE"}}


@pytest.mark.parametrize(
    ("moment_ms", "version"),
    [(1_000, 0), (1_999, 0), (2_000, 1), (2_999, 1), (3_000, 2), (10**15, 2)],
)
def test_commit_files_date_versions(table: HandwrittenTable, moment_ms: int, version: int) -> None:
    """The version at a time is the last one committed by then; later than all is the newest."""
    table.create(at_ms=1_000)
    table.commit(1, at_ms=2_000)
    table.commit(2, at_ms=3_000)

    assert DeltaLog(str(table.root)).version_at(moment_ms) == version


def test_time_before_the_first_version_is_not_found(table: HandwrittenTable) -> None:
    """There was no table then."""
    table.create(at_ms=86_400_000)

    with pytest.raises(
        NotFoundError, match=r"version at timestamp '1970-01-01 23:59:59\.999\+00:00' not found"
    ):
        DeltaLog(str(table.root)).version_at(86_399_999)


def test_times_out_of_order_are_made_to_rise(table: HandwrittenTable) -> None:
    """A commit whose file is older than the one before counts as a millisecond younger."""
    table.create(at_ms=5_000)
    table.commit(1, at_ms=3_000)
    table.commit(2, at_ms=3_000)
    table.commit(3, at_ms=9_000)
    log = DeltaLog(str(table.root))

    assert [log.version_at(moment) for moment in (5_000, 5_001, 5_002, 8_999, 9_000)] == [0, 1, 2, 2, 3]
    with pytest.raises(NotFoundError):
        log.version_at(4_999)


def test_snapshot_carries_the_time_of_its_commit(table: HandwrittenTable) -> None:
    """Without times in commits it is that of the file."""
    table.create(at_ms=5_000)

    assert DeltaLog(str(table.root)).snapshot().timestamp_ms == 5_000
    assert DeltaLog(str(table.root)).header().timestamp_ms == 5_000


def test_times_in_commits_win_over_files(table: HandwrittenTable) -> None:
    """With in-commit timestamps a copied log still tells the right times."""
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    table.commit(0, own_time(1_000), IN_COMMIT, enabled, at_ms=99_000)
    table.commit(1, own_time(2_000), at_ms=98_000)
    table.commit(2, own_time(3_000), at_ms=97_000)
    log = DeltaLog(str(table.root))

    assert [log.version_at(moment) for moment in (1_000, 2_500, 3_000, 99_000)] == [0, 1, 2, 2]
    assert log.snapshot(1).timestamp_ms == 2_000
    assert log.header(2).timestamp_ms == 3_000
    with pytest.raises(NotFoundError):
        log.version_at(999)


def test_times_in_commits_may_begin_later(table: HandwrittenTable) -> None:
    """Versions before the feature was turned on go by their files."""
    enabled = metadata(
        configuration={
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "2",
            "delta.inCommitTimestampEnablementTimestamp": "4000",
        }
    )
    table.create(at_ms=1_000)
    table.commit(1, at_ms=2_000)
    table.commit(2, own_time(4_000), IN_COMMIT, enabled, at_ms=99_000)
    table.commit(3, own_time(5_000), at_ms=99_000)
    log = DeltaLog(str(table.root))
    moments = (1_000, 1_999, 2_000, 3_999, 4_000, 4_999, 5_000, 6_000)

    assert [log.version_at(moment) for moment in moments] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert log.snapshot(1).timestamp_ms == 2_000
    assert log.snapshot(2).timestamp_ms == 4_000


def test_commit_without_its_promised_time_is_damage(table: HandwrittenTable) -> None:
    """A table with in-commit timestamps has one in each commit."""
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    table.commit(0, IN_COMMIT, enabled)

    with pytest.raises(CorruptLogError, match="at version 0"):
        DeltaLog(str(table.root)).header()
