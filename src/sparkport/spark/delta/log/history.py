"""The history of a table, as its commits tell it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sparkport.spark.delta.errors import report_damage
from sparkport.spark.delta.log import commits, members
from sparkport.spark.storage.filesystem import Storage


def read_history(storage: Storage, root: str, modified_ms: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Yield what each commit says of itself, the newest first; `modified_ms` has the times of their files.

    As Delta does it, a commit that is not newer than the one before is taken to be a millisecond younger.
    """
    times: dict[int, int] = {}
    previous: int | None = None
    for version in sorted(modified_ms):
        previous = modified_ms[version] if previous is None else max(modified_ms[version], previous + 1)
        times[version] = previous
    for version in sorted(times, reverse=True):
        name = commits.commit_name(version)
        with report_damage(root, version, name):
            info = _info(storage.read(f"{root}/_delta_log/{name}"))
            entry = _entry(version, times[version], info)
        yield entry


def _info(data: bytes) -> members.Object:
    lines = [line for line in data.split(b"\n") if b'"commitInfo"' in line]
    found = (members.optional_object(action, "commitInfo") for action in commits.parse(b"\n".join(lines)))
    return next((info for info in found if info is not None), {})


def _entry(version: int, modified_ms: int, info: members.Object) -> dict[str, Any]:
    stamp = members.optional_integer(info, "inCommitTimestamp")
    is_blind = info.get("isBlindAppend")
    return {
        "version": version,
        "timestamp": (modified_ms if stamp is None else stamp) * 1000,
        "user_id": members.optional_text(info, "userId"),
        "user_name": members.optional_text(info, "userName"),
        "operation": members.optional_text(info, "operation"),
        "operation_parameters": _texts(info, "operationParameters"),
        "read_version": members.optional_integer(info, "readVersion"),
        "isolation_level": members.optional_text(info, "isolationLevel"),
        "is_blind_append": is_blind if isinstance(is_blind, bool) else None,
        "operation_metrics": _texts(info, "operationMetrics"),
        "user_metadata": members.optional_text(info, "userMetadata"),
        "engine_info": members.optional_text(info, "engineInfo"),
    }


def _texts(info: members.Object, name: str) -> list[tuple[str, str | None]] | None:
    """Return an object as a map of texts; values that are none are written as JSON."""
    entries = members.optional_object(info, name)
    if entries is None:
        return None
    return [(key, _text(value)) for key, value in entries.items()]


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))
