"""Checkpoints of a Delta log: the whole state of a version in Parquet or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.spark.delta.errors import report_damage
from sparkport.spark.delta.log import commits, members
from sparkport.spark.delta.log.actions import Metadata, Protocol
from sparkport.spark.delta.log.commits import Commit
from sparkport.spark.storage.filesystem import Storage

_HEADER = ("protocol", "metaData")
_FILE_FIELDS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "stats",
    "deletionVector",
    "baseRowId",
)
_STATE = (*_HEADER, "txn", "sidecar", *(f"add.{field}" for field in _FILE_FIELDS))


def read_checkpoint(storage: Storage, root: str, version: int, names: tuple[str, ...]) -> Commit:
    """Return the state of a version as one commit that sets it all."""
    actions: list[dict[str, Any]] = []
    for name in names:
        with report_damage(root, version, name):
            actions += _actions(storage, f"{root}/_delta_log/{name}", _STATE)
    with report_damage(root, version, names[0]):
        sidecars = [members.optional_object(action, "sidecar") for action in actions]
        paths = [members.text(sidecar, "path") for sidecar in sidecars if sidecar is not None]
    for path in paths:
        name = unquote(path).rpartition("/")[2]
        with report_damage(root, version, f"_sidecars/{name}"):
            actions += _actions(storage, f"{root}/_delta_log/_sidecars/{name}", _STATE)
    with report_damage(root, version, names[0]):
        # The state has no tombstones: those in a checkpoint are for VACUUM alone.
        state = commits.decode([action for action in actions if "remove" not in action], root)
        if state.protocol is None or state.metadata is None:
            raise ValueError("no protocol or no metadata in it")
        return state


def read_header(storage: Storage, root: str, version: int, names: tuple[str, ...]) -> Commit:
    """Return only the protocol and metadata of a checkpoint."""
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for name in names:
        with report_damage(root, version, name):
            part = commits.decode(_actions(storage, f"{root}/_delta_log/{name}", _HEADER), root)
        protocol = part.protocol or protocol
        metadata = part.metadata or metadata
        if protocol and metadata:
            return Commit({}, {}, {}, protocol, metadata)
    with report_damage(root, version, names[0]):
        raise ValueError("no protocol or no metadata in it")


def _actions(storage: Storage, location: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    if location.endswith(".json"):
        kinds = {column.partition(".")[0] for column in columns}
        return [action for action in commits.parse(storage.read(location)) if kinds & action.keys()]
    return list(_rows(storage, location, columns))


def _rows(storage: Storage, location: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    with storage.open(location) as source, pq.ParquetFile(source) as file:
        parsed_only = "add.path" in columns and _has_only_parsed_statistics(file.schema_arrow)
        table = file.read([*columns, "add.stats_parsed"] if parsed_only else columns, use_threads=False)
    for name in table.column_names:
        column = table.column(name)
        if not pa.types.is_struct(column.type):
            raise ValueError(f"column {name} is not a struct")
        if name == "txn":
            yield from _applications(column)
            continue
        for row in column.drop_null().to_pylist(maps_as_pydicts="strict"):
            if parsed_only and name == "add":
                row["stats"] = _json_statistics(row.pop("stats_parsed"))
            yield {name: row}


def _applications(column: pa.ChunkedArray) -> Iterator[dict[str, Any]]:
    """Yield the versions of applications; there may be very many, and most of a row is of no use."""
    if not {"appId", "version"} <= {field.name for field in column.type}:
        raise ValueError("column txn lacks appId or version")
    for chunk in column.drop_null().chunks:
        names, versions = chunk.field("appId").to_pylist(), chunk.field("version").to_pylist()
        for name, version in zip(names, versions, strict=True):
            yield {"txn": {"appId": name, "version": version}}


def _has_only_parsed_statistics(schema: pa.Schema) -> bool:
    if "add" not in schema.names or not pa.types.is_struct(schema.field("add").type):
        return False
    fields = {field.name for field in schema.field("add").type}
    return "stats_parsed" in fields and "stats" not in fields


def _json_statistics(parsed: dict[str, Any] | None) -> str | None:
    """Return statistics as the JSON that the log would have had."""
    return None if parsed is None else json.dumps(_without_nulls(parsed), default=_plain)


def _without_nulls(value: Any) -> Any:  # noqa: ANN401  (JSON is untyped)
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _plain(value: object) -> str:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.decode(errors="replace")
        case _:
            raise ValueError(f"stats_parsed has a {type(value).__name__}")
