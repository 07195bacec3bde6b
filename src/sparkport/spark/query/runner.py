"""Running queries: what `query` asks for, and the way to run it on a Spark session of this process."""

from __future__ import annotations

import contextlib
import functools
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import SparkportError
from sparkport.spark.errors import client_statement_error
from sparkport.spark.external.table import stored_rows
from sparkport.spark.query.session import QuerySessions
from sparkport.spark.query.tables import BoundQuery, NamedTable
from sparkport.spark.session.jobs import Jobs

NAME = "query"


class QueryRunner(Protocol):
    """Runs queries. Every method may be called from any thread and ends when the call does."""

    @abstractmethod
    def parsed(self, call: Call, sql: str) -> str:
        """Return the plan of any statement in JSON, as Spark's parser makes it; nothing is looked up or run.

        Raises InvalidRequestError for a text that is no statement.
        """

    @abstractmethod
    def table_names(self, call: Call, sql: str) -> list[NamedTable]:
        """Return the tables that a query names, which is parsed and checked but not analysed.

        Raises the errors of `query_rules.check_parsed`.
        """

    @abstractmethod
    def spark_schema(self, call: Call, query: BoundQuery) -> str:
        """Return the columns of a query, which is analysed and checked but not run."""

    @abstractmethod
    def explained(self, call: Call, query: BoundQuery) -> str:
        """Return the plan of a query for people to read, as Spark writes it."""

    @abstractmethod
    def rows(
        self, call: Call, query: BoundQuery, spark_schema: str, options: ScanOptions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the stored values of the rows of a query with the given columns."""

    @abstractmethod
    def stop(self) -> None:
        """End what the runner has started for itself."""


class SessionRunner(QueryRunner):
    """Runs queries on a session beside the one that serves tables, on the same Spark."""

    def __init__(self, jobs: Jobs, register: Callable[[SparkSession], Collection[str]]) -> None:
        self._jobs = jobs
        self._sessions = QuerySessions(register)

    def parsed(self, call: Call, sql: str) -> str:
        """Return the plan of any statement."""
        with _statement():
            return self._jobs.run(
                call, NAME, lambda session: self._sessions.beside(call, session).parsed(sql)
            )

    def table_names(self, call: Call, sql: str) -> list[NamedTable]:
        """Return the tables that a query names."""
        with _statement():
            return self._jobs.run(
                call, NAME, lambda session: self._sessions.beside(call, session).table_names(sql)
            )

    def spark_schema(self, call: Call, query: BoundQuery) -> str:
        """Return the columns of a query."""
        with _statement():
            return self._jobs.run(
                call,
                NAME,
                lambda session: self._sessions.beside(call, session, query.settings).columns(call, query),
            )

    def explained(self, call: Call, query: BoundQuery) -> str:
        """Return the plan of a query as a text."""
        with _statement():
            return self._jobs.run(
                call,
                NAME,
                lambda session: self._sessions.beside(call, session, query.settings).explained(call, query),
            )

    def rows(
        self, call: Call, query: BoundQuery, spark_schema: str, options: ScanOptions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the stored values of the rows."""
        read = functools.partial(_frame, self._sessions, call, query)
        with _statement():
            yield from stored_rows(self._jobs, call, NAME, read, spark_schema, options)

    def stop(self) -> None:
        """Do nothing: the session ends with its Spark."""


@contextlib.contextmanager
def _statement() -> Iterator[None]:
    """Run a statement that a client wrote: what is wrong with it is an error of the request."""
    try:
        yield
    except SparkportError:
        raise
    except Exception as error:
        ours = client_statement_error(error)
        if ours is None:
            raise
        raise ours from error


def _frame(sessions: QuerySessions, call: Call, query: BoundQuery, session: SparkSession) -> DataFrame:
    return sessions.beside(call, session, query.settings).rows(call, query)
