"""One commit of a Delta log: a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkport.spark.delta.errors import report_damage
from sparkport.spark.delta.log import members
from sparkport.spark.delta.log.actions import (
    DataFile,
    Metadata,
    Protocol,
    decode_deletion_vector,
    decode_file,
    decode_metadata,
    decode_protocol,
)
from sparkport.spark.storage.filesystem import Storage, resolve

# What the history says of an ALTER, also of one that had to write all rows again.
_ALTER = "UPDATE SCHEMA"

OWN_ENGINE = "sparkport"
"""What the log says of who has written a commit, if a server has: what it names was on the disk before."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What one version changes.

    A removed file is named by its path and the id of the deletion vector it had.
    """

    added: Mapping[str, DataFile]
    removed: Mapping[str, str | None]
    transactions: Mapping[str, int]
    protocol: Protocol | None
    metadata: Metadata | None


def commit_name(version: int) -> str:
    """Return the name of a commit's file."""
    return f"{version:020d}.json"


def read_commit(storage: Storage, root: str, version: int) -> Commit:
    """Read all of a commit that matters for the state of the table."""
    name = commit_name(version)
    with report_damage(root, version, name):
        data = storage.read(f"{root}/_delta_log/{name}")
        return decode(parse(data), root)


def parse(data: bytes) -> list[dict[str, Any]]:
    """Return the actions in a file of JSON lines."""
    # One parse of everything is twice as fast as a parse per line.
    lines = [line for line in data.decode().split("\n") if line and not line.isspace()]
    actions = json.loads(f"[{','.join(lines)}]")
    if len(actions) != len(lines) or not all(isinstance(action, dict) for action in actions):
        raise ValueError("a line is not one JSON object")
    return list(actions)


def decode(actions: list[dict[str, Any]], root: str) -> Commit:
    """Return what a list of actions changes; of actions on the same thing the last holds."""
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    added: dict[str, DataFile] = {}
    removed: dict[str, str | None] = {}
    transactions: dict[str, int] = {}
    for action in actions:
        match action:
            case {"add": dict() as add}:
                file = decode_file(add, root)
                added[file.path] = file
                if file.path in removed and removed[file.path] == file.vector_id:
                    del removed[file.path]
            case {"remove": dict() as remove}:
                path = resolve(root, members.text(remove, "path"))
                vector = decode_deletion_vector(remove)
                removed[path] = vector.unique_id if vector else None
                if path in added and added[path].vector_id == removed[path]:
                    del added[path]
            case {"txn": dict() as txn}:
                transactions[members.text(txn, "appId")] = members.integer(txn, "version")
            case {"metaData": dict() as raw}:
                metadata = decode_metadata(raw)
            case {"protocol": dict() as raw}:
                protocol = decode_protocol(raw)
            case _:
                pass  # provenance, change data and domains do not change what is read
    return Commit(added, removed, transactions, protocol, metadata)


def changes_rows(actions: list[dict[str, Any]], kinds: tuple[str, ...]) -> bool:
    """Return whether actions of these kinds change rows, and not only columns or how rows lie in files."""
    infos = (members.optional_object(action, "commitInfo") for action in actions)
    info = next((info for info in infos if info is not None), {})
    files = [members.optional_object(action, kind) for action in actions for kind in kinds]
    return info.get("operation") != _ALTER and any(
        file.get("dataChange", True) for file in files if file is not None
    )


def is_own(actions: list[dict[str, Any]]) -> bool:
    """Return whether a server has written a commit itself, and not Spark for it."""
    info = members.optional_object(actions[0], "commitInfo") if actions else None
    return info is not None and info.get("engineInfo") == OWN_ENGINE


def read_header(storage: Storage, root: str, version: int) -> tuple[Protocol | None, Metadata | None]:
    """Return the protocol and metadata that a commit sets, without looking at its files."""
    name = commit_name(version)
    with report_damage(root, version, name):
        data = storage.read(f"{root}/_delta_log/{name}")
        if b'"protocol"' not in data and b'"metaData"' not in data:
            return None, None
        lines = [line for line in data.split(b"\n") if b'"protocol"' in line or b'"metaData"' in line]
        commit = decode([action for action in parse(b"\n".join(lines)) if "add" not in action], root)
        return commit.protocol, commit.metadata


def read_in_commit_ms(storage: Storage, root: str, version: int) -> int:
    """Return the time that a commit carries in itself."""
    name = commit_name(version)
    with report_damage(root, version, name):
        line = storage.first_line(f"{root}/_delta_log/{name}")
        (action,) = parse(line)
        info = members.optional_object(action, "commitInfo") or {}
        return members.integer(info, "inCommitTimestamp")
