"""What can be wrong with the log of a Delta table.

PreconditionError
├── CorruptLogError          files of the log are missing or make no sense
├── PartitionValueError      a text in the log is no value of its column
└── SparkRequiredError       a commit that the server leaves to Spark; never seen by clients
NotFoundError
└── VersionNotFoundError     a version that does not exist yet, or no longer
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from sparkport.errors import NotFoundError, PreconditionError, SparkportError
from sparkport.spark.storage.folder_names import table_label


class CorruptLogError(PreconditionError):
    """The log cannot be read as the protocol says.

    A precondition, not an outage: trying again does not help until somebody repairs the table.
    """

    def __init__(self, root: str, version: int, detail: str) -> None:
        table = table_label(root)
        super().__init__(f"the log of table '{table}' is damaged at version {version}: {detail}")
        self.table = table
        self.version = version


class PartitionValueError(PreconditionError):
    """The log gives a partition column a text that is no value of its type, or one beyond the year 9999."""

    def __init__(self, root: str, column: str, text: str | None, kind: pa.DataType) -> None:
        table = table_label(root)
        super().__init__(
            f"the log of table '{table}' has the value {text!r} in partition column '{column}',"
            f" which cannot be read as {kind}"
        )


class SparkRequiredError(PreconditionError):
    """Only Delta's transaction in Spark can make a commit. Nothing of it was done."""

    def __init__(self, root: str, reason: str) -> None:
        super().__init__(f"a commit to table '{table_label(root)}' needs Spark: {reason}")


class VersionNotFoundError(NotFoundError):
    """A version that the table does not have, or whose log was cleaned up."""

    def __init__(self, root: str, version: int, first: int, last: int) -> None:
        available = f"versions {first} to {last} are" if first < last else f"only version {last} is"
        table = table_label(root)
        SparkportError.__init__(
            self, f"version {version} of table '{table}' not found: {available} available"
        )
        self.kind = "version"
        self.name = str(version)


@contextmanager
def report_damage(root: str, version: int, file: str) -> Iterator[None]:
    """Raise CorruptLogError for a file of the log that is missing, or that does not decode.

    Decoders raise ValueError for what they do not accept, as `json` does; other errors, such as TypeError or
    KeyError, are faults of this program and pass.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptLogError(root, version, f"{file} is missing") from error
    except (ValueError, EOFError, pa.ArrowException) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CorruptLogError(root, version, f"{file} cannot be decoded ({reason})") from error
