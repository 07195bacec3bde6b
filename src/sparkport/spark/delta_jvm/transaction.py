"""What all commits through Delta's own transactions have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkport.spark.delta.commit.durability import write_through_added
from sparkport.spark.delta_jvm.bridge import Actions

MakeRows = Callable[[SparkSession], DataFrame]


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The version that a commit has made, None if that is not known.

    Or the `known` keys that the log has already, with what it has recorded for them: then nothing was done.
    """

    version: int | None = None
    known: Mapping[str, int] = field(default_factory=dict)


def commit_actions(root: str, transaction: Any, actions: Actions, operation: Any) -> CommitResult:  # noqa: ANN401
    """Commit. What the commit names is on the disk before anybody can see it."""
    write_through_added(root, actions.decode())
    return CommitResult(int(transaction.commit(actions.sequence(), operation)))
