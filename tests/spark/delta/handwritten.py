"""Delta logs written by hand, for what no writer does on request."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIELDS = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]


@dataclass(frozen=True, slots=True)
class HandwrittenTable:
    """A table folder whose commits the test writes."""

    root: Path

    @property
    def log(self) -> Path:
        """The folder of the log."""
        return self.root / "_delta_log"

    def commit(self, version: int, *actions: Mapping[str, Any], at_ms: int | None = None) -> Path:
        """Write a commit."""
        text = "".join(json.dumps(action) + "\n" for action in actions)
        return self.write(f"{version:020d}.json", text, at_ms=at_ms)

    def create(self, *actions: Mapping[str, Any], at_ms: int | None = None) -> Path:
        """Write version 0 with protocol, metadata and more."""
        return self.commit(0, protocol(), metadata(), *actions, at_ms=at_ms)

    def write(self, name: str, text: str, *, at_ms: int | None = None) -> Path:
        """Write any file of the log."""
        self.log.mkdir(parents=True, exist_ok=True)
        path = self.log / name
        path.write_text(text)
        if at_ms is not None:
            os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
        return path


def protocol(**changes: object) -> dict[str, Any]:
    """Return a protocol action."""
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, **changes}}


def metadata(fields: list[dict[str, Any]] | None = None, **changes: object) -> dict[str, Any]:
    """Return a metadata action."""
    schema = json.dumps({"type": "struct", "fields": FIELDS if fields is None else fields})
    base = {"id": "6f0f3a", "schemaString": schema, "partitionColumns": [], "configuration": {}}
    return {"metaData": base | changes}


def add(path: str, rows: int | None = None, **changes: object) -> dict[str, Any]:
    """Return an add action."""
    base = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1_000, "dataChange": True}
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": base | stats | changes}


def remove(path: str, **changes: object) -> dict[str, Any]:
    """Return a remove action."""
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **changes}}


def vector(name: str, cardinality: int) -> dict[str, Any]:
    """Return the description of a deletion vector in a file."""
    where = {"storageType": "u", "pathOrInlineDv": name, "offset": 1}
    return where | {"sizeInBytes": 40, "cardinality": cardinality}
