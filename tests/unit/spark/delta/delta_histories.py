"""Random histories of Delta tables, written by `deltalake`, and by hand where it cannot write them."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from sparkport.spark.delta.files.deletion_vectors import inline_vector, write_vectors

_PARTITIONS = ["a", "b c", "100%", "x=y/z", "ü", None]
_FEATURES = ["deletionVectors", "v2Checkpoint"]


class History:
    """A table that gets a random commit or checkpoint at each step."""

    def __init__(self, root: Path, seed: int) -> None:
        """Make a table with rows; every second one is partitioned, by one column or two."""
        self.root = root
        self.log = root / "_delta_log"
        self._random = random.Random(seed)
        self._partitions = ["p", "k"][: seed % 3]
        self._columns = 0
        self._next = 0
        self._deleted: dict[str, set[int]] = {}
        write_deltalake(root, self._rows(), partition_by=self._partitions or None)
        names = {"readerFeatures": _FEATURES, "writerFeatures": _FEATURES}
        self._commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **names}})

    def step(self) -> str:
        """Change the table at random; return how."""
        steps = [
            *[self._append] * 3,
            *[self._delete_by_vector] * 3,
            *(self._delete, self._overwrite, self._compact, self._set_property),
            *(self._add_column, self._append_with_new_column),
            *(self._write_classic_checkpoint, self._write_v2_checkpoint),
        ]
        step = self._random.choice(steps)
        step()
        return step.__name__

    @property
    def newest(self) -> DeltaTable:
        """The table as it is now."""
        return DeltaTable(self.root)

    def forget_before_checkpoint(self) -> int:
        """Remove the commits that the newest checkpoint has taken in; return its version, or 0."""
        version = max((int(path.name[:20]) for path in self.log.glob("*.checkpoint.*")), default=0)
        for number in range(version):
            (self.log / f"{number:020}.json").unlink()
        return version

    def _rows(self, **more: pa.Array) -> pa.Table:
        count = self._random.randint(1, 12)
        self._next += count
        numbers = pa.array(range(self._next - count, self._next), pa.int64())
        texts = pa.array(self._random.choices(_PARTITIONS, k=count), pa.string())
        keys = pa.array(self._random.choices([0, -7, None], k=count), pa.int32())
        columns = {"n": numbers, "p": texts, "k": keys}
        return pa.table(columns | {name: array.slice(0, count) for name, array in more.items()})

    def _append(self) -> None:
        write_deltalake(self.root, self._rows(), mode="append", schema_mode="merge")

    def _append_with_new_column(self) -> None:
        self._columns += 1
        values = pa.array([1.5, None, -0.0] * 4)
        rows = self._rows(**{f"more {self._columns}": values})
        write_deltalake(self.root, rows, mode="append", schema_mode="merge")

    def _add_column(self) -> None:
        self._columns += 1
        self.newest.alter.add_columns(Field(f"added {self._columns}", PrimitiveType("date")))

    def _overwrite(self) -> None:
        write_deltalake(self.root, self._rows(), mode="overwrite", schema_mode="merge")

    def _delete(self) -> None:
        self.newest.delete(f"n % 5 = {self._random.randrange(5)}")

    def _compact(self) -> None:
        self.newest.optimize.compact()

    def _set_property(self) -> None:
        self.newest.alter.set_table_properties({"delta.logRetentionDuration": f"interval {self._next} days"})

    def _delete_by_vector(self) -> None:
        """Delete rows of one file without writing it again, which `deltalake` reads but does not write."""
        adds = [add for add in self._live_files() if self._row_count(add) - self._taken(add) > 0]
        if not adds:
            return
        add = self._random.choice(adds)
        gone = self._deleted.setdefault(add["path"], set())
        left = sorted(set(range(self._row_count(add))) - gone)
        gone |= set(self._random.sample(left, self._random.randint(1, len(left))))
        positions = np.array(sorted(gone), np.int64)
        is_inline = self._random.random() < 0.5
        vector = inline_vector(positions) if is_inline else write_vectors(str(self.root), [positions])[1][0]
        kept = ("path", "partitionValues", "size", "deletionVector")
        remove = {key: add[key] for key in kept if add.get(key) is not None}
        self._commit(
            {
                "remove": {
                    **remove,
                    "deletionTimestamp": 1,
                    "dataChange": True,
                    "extendedFileMetadata": True,
                }
            },
            {"add": {**add, "deletionVector": vector.logged, "dataChange": True}},
        )

    def _write_classic_checkpoint(self) -> None:
        self.newest.create_checkpoint()

    def _write_v2_checkpoint(self) -> None:
        """Turn a classic checkpoint into one of the second version: a manifest and a file beside it."""
        table = self.newest
        table.create_checkpoint()
        version = table.version()
        classic = self.log / f"{version:020}.checkpoint.parquet"
        state = pq.read_table(classic)
        classic.unlink()
        (self.log / "_last_checkpoint").unlink()
        (self.log / "_sidecars").mkdir(exist_ok=True)
        sidecar = self.log / "_sidecars" / f"{uuid.uuid4()}.parquet"
        pq.write_table(state.select(["add", "remove"]), sidecar)
        rest = state.select([name for name in state.column_names if name not in {"add", "remove", "sidecar"}])
        actions: list[Mapping[str, Any]] = [
            {"checkpointMetadata": {"version": version}},
            *(_without_nulls(row) for row in rest.to_pylist(maps_as_pydicts="strict") if any(row.values())),
            {"sidecar": {"path": sidecar.name, "sizeInBytes": sidecar.stat().st_size, "modificationTime": 1}},
        ]
        manifest = self.log / f"{version:020}.checkpoint.{uuid.uuid4()}.json"
        manifest.write_text("\n".join(map(json.dumps, actions)))

    def _commit(self, *actions: Mapping[str, Any]) -> None:
        path = self.log / f"{self.newest.version() + 1:020}.json"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
            file.write("\n".join(map(json.dumps, actions)))

    def _live_files(self) -> list[dict[str, Any]]:
        """Return the newest action for each file of the table."""
        logged = {
            action["add"]["path"]: action["add"]
            for path in sorted(self.log.glob("*[0-9].json"))
            for action in map(json.loads, path.read_text().splitlines())
            if "add" in action
        }
        return [logged[path] for path in pa.table(self.newest.get_add_actions())["path"].to_pylist()]

    def _taken(self, add: Mapping[str, Any]) -> int:
        return len(self._deleted.get(add["path"], ()))

    @staticmethod
    def _row_count(add: Mapping[str, Any]) -> int:
        return int(json.loads(add["stats"])["numRecords"])


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
