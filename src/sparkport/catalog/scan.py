"""What a scan asks for: columns, filter, limit, point in time."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.predicates import Expression
from sparkport.errors import InvalidRequestError


class TimeUnit(enum.StrEnum):
    """How a point in time is given."""

    TIMESTAMP = "timestamp"
    VERSION = "version"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A point in the history of a table.

    The value's form depends on the unit: `2024-01-15T10:30:00Z` (timestamp),
    `42` (version) or a table's own opaque snapshot id.
    """

    unit: TimeUnit
    value: str

    def version(self) -> int:
        """Return the value as the number of a version. Raises InvalidRequestError."""
        try:
            return int(self.value)
        except ValueError as error:
            raise InvalidRequestError(f"{self.value!r} is not a version number") from error

    def moment(self) -> datetime:
        """Return the value as a time, in UTC where it says no zone. Raises InvalidRequestError."""
        try:
            moment = datetime.fromisoformat(self.value.strip())
        except ValueError as error:
            example = "2024-01-15T10:30:00Z"
            raise InvalidRequestError(f"{self.value!r} is not a timestamp such as {example}") from error
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScanSlice:
    """One of `count` disjoint parts that together are the whole scan."""

    index: int
    count: int


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What to read. Every option may be ignored except time point, limit and slice.

    A filter is a hint: rows it excludes may be left out, but need not be; the
    client applies it again. A limit counts rows that pass the filter, so whoever does
    not apply the filter exactly leaves the limit to the client too; zero or less is
    no limit. Columns not asked for may be left out or delivered.
    """

    columns: tuple[str, ...] | None = None
    filter: Expression | None = None
    limit: int | None = None
    batch_size: int | None = None
    time_point: TimePoint | None = None
    slice: ScanSlice | None = None


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """What a dynamic schema may depend on."""

    parameters: tuple[Any, ...] | None = None
    time_point: TimePoint | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One fixed state of a table.

    `time_point` names it for good: a scan with it reads exactly this state,
    whatever is written meanwhile. `row_count` is exact, and None if the rows would have to be read for it:
    a client that only counts rows gets it without a scan.
    """

    time_point: TimePoint
    arrow_schema: pa.Schema
    row_count: int | None = None


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A table function of DuckDB, such as `read_csv`, with what it is called with."""

    function: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DirectReads:
    """What of a scan DuckDB reads by functions of its own, and the rest for the server, None if nothing."""

    calls: Sequence[ClientCall]
    rest: PlannedScan | None = None


class PlannedScan(Protocol):
    """A scan of one fixed state, for which everything is decided; any number of calls may read its slices."""

    @abstractmethod
    def arrow_schema(self, call: Call) -> pa.Schema:
        """Return all columns of the state, whichever of them are read."""
        raise NotImplementedError

    @property
    @abstractmethod
    def slice_count(self) -> int:
        """Into how many `ScanSlice`s the scan is best cut, at least 1."""
        raise NotImplementedError

    @abstractmethod
    def direct_reads(self, call: Call) -> DirectReads | None:
        """Return how DuckDB reads it by itself, or None where it may not or cannot.

        For the same client it is the same at every call.
        """
        raise NotImplementedError

    @abstractmethod
    def read(self, call: Call, part: ScanSlice | None) -> pa.RecordBatchReader:
        """Return the rows of a slice, or of all."""
        raise NotImplementedError
