"""The log reader against another one: `deltalake`, which is delta-kernel's and not Spark's."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.log.spark_fields import struct_json

from .delta_histories import History

_STEPS = 14


def expected(root: Path, version: int) -> dict[str, Any]:
    """Return what `deltalake` reads at a version."""
    table = DeltaTable(root, version=version)
    protocol, metadata = table.protocol(), table.metadata()
    files = pa.table(table.get_add_actions()).to_pylist()
    rows = QueryBuilder().register("t", table).execute("SELECT count(*) AS c FROM t").read_all()
    return {
        "files": {
            file["path"]: (
                file["size_bytes"],
                file["modification_time"],
                file["num_records"],
                {name: _text(value) for name, value in (file.get("partition") or {}).items()},
            )
            for file in files
        },
        "rows": pa.table(rows)["c"][0].as_py(),
        "schema": _json(table),
        "partitions": metadata.partition_columns,
        "configuration": metadata.configuration,
        "id": metadata.id,
        "protocol": (protocol.min_reader_version, protocol.min_writer_version),
        "features": (set(protocol.reader_features or ()), set(protocol.writer_features or ())),
    }


def read(snapshot: DeltaSnapshot) -> dict[str, Any]:
    """Return what the server reads, in the same form."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "files": {
            file.logged_path: (file.size, file.modification_ms, file.physical_rows, file.partition_values)
            for file in snapshot.files
        },
        "rows": snapshot.row_count,
        "schema": struct_json(metadata.fields),
        "partitions": list(metadata.partition_columns),
        "configuration": metadata.configuration,
        "id": metadata.table_id,
        "protocol": (protocol.min_reader, protocol.min_writer),
        "features": (set(protocol.reader_features), set(protocol.writer_features)),
    }


@pytest.mark.parametrize("seed", range(6))
def test_every_version_is_read_as_another_reader_does(seed: int, tmp_path: Path) -> None:
    """Files, rows, schema and partition values agree at every version, in whatever order one asks."""
    history = History(tmp_path / "t", seed)
    steps = [history.step() for _ in range(_STEPS)]
    versions = {version: expected(history.root, version) for version in range(history.newest.version() + 1)}
    order = random.Random(seed).sample(sorted(versions), len(versions))
    warm = DeltaLog(str(history.root))

    for version in order:
        assert read(warm.snapshot(version)) == versions[version], (version, steps)
        assert read(DeltaLog(str(history.root)).snapshot(version)) == versions[version], (version, steps)
        assert warm.header(version) == warm.snapshot(version).header

    first = history.forget_before_checkpoint()
    for version in sorted(versions)[first:]:
        fresh = DeltaLog(str(history.root))
        assert fresh.header(version) == warm.snapshot(version).header
        assert read(fresh.snapshot(version)) == versions[version], (version, steps)


def _json(table: DeltaTable) -> Any:
    return json.loads(table.schema().to_json())


def _text(value: object) -> str | None:
    return None if value is None else str(value)
