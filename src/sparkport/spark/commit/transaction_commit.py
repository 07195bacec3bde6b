"""The commit of a transaction to one of several tables: as the journal keeps it, and in a log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkport.spark.delta.log.commits import commit_name, parse

APPLICATION = "sparkport-transaction"
"""The application of Delta's `txn` actions that the commits of a transaction over several tables carry."""

UNDONE = "sparkport-transaction-undone"
"""That of the commits by which they are taken back."""


@dataclass(frozen=True, slots=True)
class TableCommit:
    """The commit of a transaction to one table, made for a version of it, and the files that it adds."""

    table: str
    root: str
    table_id: str
    base_version: int
    operation: str
    parameters: Mapping[str, str]
    actions: Sequence[str]
    keys: Mapping[str, int]
    metrics: Mapping[str, int]
    folder: str
    files: Sequence[str]
    """Their names in `folder`, from where they are moved to the table's folder."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.actions or self.keys)

    def version(self, number: int, application: str = APPLICATION) -> int | None:
        """Return the version that the transaction of a number has made, None if it has not."""
        version = self.base_version
        while True:
            version += 1
            try:
                data = (Path(self.root) / "_delta_log" / commit_name(version)).read_bytes()
            except FileNotFoundError:
                return None
            txns = [action["txn"] for action in parse(data) if "txn" in action]
            if any(txn.get("appId") == application and txn.get("version") == number for txn in txns):
                return version


def mark(number: int, application: str = APPLICATION) -> str:
    """Return the action by which the commits of a transaction are found."""
    txn = {"appId": application, "version": number, "lastUpdated": int(time.time() * 1000)}
    return json.dumps({"txn": txn})
