"""Logs for what one transaction sees, read back by the reader of logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparkport.spark.delta.commit.private_log import PrivateLog
from sparkport.spark.delta.files.deletion_vectors import deleted_positions, inline_vector, write_vectors
from sparkport.spark.delta.log.actions import DataFile, Metadata, Protocol
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.log.spark_fields import SparkField

FEATURES = frozenset({"columnMapping", "deletionVectors"})
METADATA = Metadata(
    "a-table",
    None,
    None,
    (SparkField("n", "long", metadata={"delta.columnMapping.id": 1}),),
    ("day",),
    {"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true", "own": "x"},
)


def _file(path: Path, rows: int = 3) -> DataFile:
    statistics = f'{{"numRecords":{rows},"minValues":{{"n":1}}}}'
    return DataFile(str(path), {"day": None}, 10, 20, statistics, None, rows)


def _state(*files: DataFile) -> DeltaSnapshot:
    protocol = Protocol(3, 7, FEATURES, FEATURES | {"inCommitTimestamp"})
    return DeltaSnapshot(7, 0, protocol, METADATA, files, {}, None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return the folder of a table, with a name that a URI has to quote."""
    folder = tmp_path / "a table % ä"
    folder.mkdir()
    return folder


def test_a_state_is_the_newest_version(table: Path, tmp_path: Path) -> None:
    """Files in other folders, and rows that are deleted in either way, are read as they are."""
    _, (stored,) = write_vectors(str(table), [np.array([0, 2])])
    kept = _file(table / "one%20file.parquet")
    shrunk = replace(_file(table / "two.parquet"), deletion_vector=stored)
    log = PrivateLog(str(tmp_path / "private"), str(table))

    log.show(_state(kept, shrunk))
    found = DeltaLog(log.folder).snapshot()

    assert {file.path for file in found.files} == {kept.path, shrunk.path}
    (vector,) = [file.deletion_vector for file in found.files if file.deletion_vector]
    assert deleted_positions(vector, log.folder).tolist() == [0, 2]
    assert found.metadata.fields == METADATA.fields
    assert found.metadata.configuration == {"delta.columnMapping.mode": "name"}
    assert found.metadata.partition_columns == ("day",)
    assert found.row_count == 4


def test_later_states_are_later_versions(table: Path, tmp_path: Path) -> None:
    """Only what is different is written, also when a state comes back."""
    first, second = _file(table / "one.parquet"), _file(tmp_path / "staged" / "two.parquet")
    states = [
        _state(first),
        _state(first, second),
        _state(replace(first, deletion_vector=inline_vector(np.array([1])))),
        _state(first),
    ]
    log = PrivateLog(str(tmp_path / "private"), str(table))
    counts = []
    for state in (*states, states[-1]):
        log.show(state)
        counts.append(DeltaLog(log.folder).snapshot().row_count)

    assert counts == [3, 6, 2, 3, 3]
    assert len(list((Path(log.folder) / "_delta_log").iterdir())) == 4


def test_a_discarded_log_stays_away(table: Path, tmp_path: Path) -> None:
    """A query that comes too late does not make the folder again."""
    log = PrivateLog(str(tmp_path / "private"), str(table))
    log.show(_state(_file(table / "one.parquet")))
    log.discard()
    log.show(_state(_file(table / "two.parquet")))

    assert not Path(log.folder).exists()
