"""What a backend is: catalogs of schemas of tables.

Implementations are used from many threads at once and must be safe for that.
Methods take the `Call` they serve; long ones call `call.check()` in their loops.
Collections are returned empty, never None; a look-up by name returns None when
there is no such thing and raises only when looking fails.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sparkport.catalog.abilities import Ability
from sparkport.catalog.call import Call
from sparkport.catalog.functions import ScalarFunction, TableFunction, TableInOutFunction
from sparkport.catalog.scan import ClientCall, PlannedScan, ScanOptions, SchemaRequest, Snapshot, TimePoint


@runtime_checkable
class Table(Protocol, metaclass=Ability):
    """A table or view that can be read."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The table's name, never empty."""
        raise NotImplementedError

    @property
    @abstractmethod
    def comment(self) -> str:
        """The table's documentation, or an empty text."""
        raise NotImplementedError

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema | None:
        """The columns; None only for a `DynamicSchemaTable`.

        A field marked by `rowid_field()` is the row id and comes last. Field
        metadata `comment` and `default` (an SQL expression) are shown to clients.
        """
        raise NotImplementedError

    @abstractmethod
    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches.

        The stream has the columns of `arrow_schema` with exactly their types, or
        at least those in `options.columns`. The server closes the reader.
        """
        raise NotImplementedError


class TableKind(enum.StrEnum):
    """What a table is, in the words of Flight SQL."""

    TABLE = "TABLE"
    VIEW = "VIEW"


@runtime_checkable
class HasTableKind(Table, Protocol):
    """A table that tells its kind; all others are plain tables."""

    @property
    @abstractmethod
    def table_kind(self) -> TableKind:
        """What it is."""
        raise NotImplementedError


@runtime_checkable
class DynamicSchemaTable(Table, Protocol):
    """A table whose columns depend on the request."""

    @abstractmethod
    def schema_for_request(self, call: Call, request: SchemaRequest) -> pa.Schema:
        """Return the columns for a request without reading rows.

        Raises InvalidRequestError for parameters or a time point that mean nothing.
        """
        raise NotImplementedError


@runtime_checkable
class VersionedTable(Table, Protocol):
    """A table with a history of states that stay readable."""

    @abstractmethod
    def snapshot(self, call: Call, time_point: TimePoint | None) -> Snapshot:
        """Fix the state that this call reads.

        Without a time point it is the state of the call's transaction, else the
        newest. Raises NotFoundError for a state that does not exist and
        InvalidRequestError for a malformed time point.
        """
        raise NotImplementedError


@runtime_checkable
class SplittableTable(Table, Protocol):
    """A table that can be read in several parts at once."""

    @abstractmethod
    def slice_count(self, call: Call, options: ScanOptions) -> int:
        """Return into how many `ScanSlice`s this scan is best cut, at least 1."""
        raise NotImplementedError


@runtime_checkable
class PlanningTable(Table, Protocol):
    """A table for which planning a scan is work: it is done once, not again for each slice."""

    @abstractmethod
    def plan_scan(self, call: Call, options: ScanOptions) -> PlannedScan:
        """Decide what a scan reads, whatever slice the options name."""
        raise NotImplementedError


@runtime_checkable
class DirectTable(Table, Protocol):
    """A table whose files clients may read themselves, where they can reach them."""

    @abstractmethod
    def direct_files(self, call: Call, options: ScanOptions) -> Sequence[str] | None:
        """Return Parquet files that are together exactly what the scan would read, unfiltered.

        A plain reader of Parquet must get all columns of the table from them, with their
        names and types. None where it would not, or where the table is not to be read so.
        """
        raise NotImplementedError


@runtime_checkable
class ReferenceTable(Table, Protocol):
    """A table that DuckDB reads by functions of its own; other clients scan it."""

    @abstractmethod
    def client_calls(self, call: Call, options: ScanOptions) -> Sequence[ClientCall]:
        """Return calls whose rows are together the table's; columns are matched by name.

        They run on the client's machine and must give exactly the types of the table.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known for certain of a column's values in one state of a table.

    A bound that is not known is a null scalar, a `distinct_count` that is not known is 0.
    """

    minimum: pa.Scalar
    maximum: pa.Scalar
    has_null: bool
    has_not_null: bool
    distinct_count: int
    max_string_length: int | None = None
    contains_unicode: bool | None = None


@runtime_checkable
class StatisticsTable(Table, Protocol):
    """A table that knows the exact range of its columns."""

    @abstractmethod
    def column_statistics(self, call: Call, column: str) -> ColumnStatistics:
        """Return statistics that hold exactly for the state `call` would read.

        Raises NotFoundError for an unknown column.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableConstraints:
    """What a table enforces beyond NOT NULL, which the schema's fields say."""

    checks: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = ()


@runtime_checkable
class ConstrainedTable(Table, Protocol):
    """A table that enforces constraints and tells which."""

    @property
    @abstractmethod
    def constraints(self) -> TableConstraints:
        """The constraints in force."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableDescription:
    """What a listing shows of one state of a table."""

    arrow_schema: pa.Schema
    comment: str
    constraints: TableConstraints | None


@runtime_checkable
class HasDescription(Table, Protocol):
    """A table that tells at once what a listing shows: one look at a log, not one for each property."""

    @abstractmethod
    def describe(self, call: Call) -> TableDescription:
        """Return what there is to know of the newest state."""
        raise NotImplementedError


@runtime_checkable
class Schema(Protocol, metaclass=Ability):
    """A named group of tables and functions."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The schema's name, never empty. DuckDB cannot look up one called `main`."""
        raise NotImplementedError

    @property
    @abstractmethod
    def comment(self) -> str:
        """The schema's documentation, or an empty text."""
        raise NotImplementedError

    @abstractmethod
    def tables(self, call: Call) -> Sequence[Table]:
        """Return the tables that the principal may see."""
        raise NotImplementedError

    @abstractmethod
    def table(self, call: Call, name: str) -> Table | None:
        """Return the table of that name, or None."""
        raise NotImplementedError

    @abstractmethod
    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return the scalar functions that the principal may call."""
        raise NotImplementedError

    @abstractmethod
    def table_functions(self, call: Call) -> Sequence[TableFunction | TableInOutFunction]:
        """Return the table functions that the principal may call, with and without a table argument."""
        raise NotImplementedError


@runtime_checkable
class Catalog(Protocol, metaclass=Ability):
    """The top of a backend: what a client attaches."""

    @abstractmethod
    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return the schemas that the principal may see."""
        raise NotImplementedError

    @abstractmethod
    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, or None."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CatalogVersion:
    """How a client knows whether what it has cached still holds."""

    version: int
    is_fixed: bool = False


@runtime_checkable
class VersionedCatalog(Catalog, Protocol):
    """A catalog that counts its changes, so that listings can be cached."""

    @abstractmethod
    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return a number that rises whenever a listing would change.

        Where there are transactions or statistics it rises with the rows too: until it
        does, DuckDB's prepared statements keep the transaction and the statistics that
        they were planned with.
        """
        raise NotImplementedError
