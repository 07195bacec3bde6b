"""Statements in SQL: what a catalog does that has an SQL of its own.

Optional: for a catalog without it the server runs DuckDB's SQL over the catalog's tables (`sparkport.sql`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.tables import Catalog


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """The text of one statement, and what its names mean.

    `catalog` is the name under which clients know the catalog. Tables without a schema are in `schema`; if
    that is empty, the catalog decides. Parameters are written as `?`. Times without a zone are in
    `time_zone`, else in UTC. With a `part` only those rows are read that `SqlDescription` gave this name.
    `settings` are those of the session, by names of the catalog's SQL, which refuses what it does not know.
    """

    text: str
    catalog: str
    schema: str = ""
    time_zone: str = ""
    part: str = ""
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SqlDescription:
    """What is known of a statement before it runs.

    `arrow_schema` has the columns of its rows, and is None for a statement that returns none. `parameters`
    has a field for each parameter, of the type that it is compared with or stored as; of the null type if
    the statement does not tell. `parts` name the parts of its rows if these can be read side by side, in
    words of the catalog.
    """

    arrow_schema: pa.Schema | None
    parameters: pa.Schema
    parts: tuple[str, ...] = ("",)


@runtime_checkable
class SqlCatalog(Catalog, Protocol):
    """A catalog with an SQL of its own.

    Every method raises InvalidRequestError for what is no statement or for parameters that do not fit,
    NotFoundError for names that mean nothing, PermissionDeniedError for what is not allowed, and
    UnsupportedOperationError for what the tables cannot do. Statements that change rows keep all
    constraints, and happen wholly or not at all.
    """

    @abstractmethod
    def describe_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        """Analyse a statement without running it; `parameters` are its values where they are known."""
        raise NotImplementedError

    @abstractmethod
    def query_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> pa.RecordBatchReader:
        """Return the rows of a query, for each row of parameters in turn. The server closes the reader."""
        raise NotImplementedError

    @abstractmethod
    def update_sql(self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None) -> int:
        """Run a statement that returns no rows and return how many it changed; 0 for DDL.

        With several rows of parameters it runs for each of them, all as one statement.
        """
        raise NotImplementedError


@runtime_checkable
class GatedSql(Protocol):
    """A catalog that does not let every caller run SQL over its tables."""

    @abstractmethod
    def check_sql(self) -> None:
        """Make sure that the caller may run SQL. Raises PermissionDeniedError."""
        raise NotImplementedError
