"""A Spark session for the queries of clients, apart from the one that serves tables."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError, PermissionDeniedError, UnsupportedOperationError
from sparkport.spark.delta_jvm.log_cache import forget
from sparkport.spark.query import rules
from sparkport.spark.query.result_names import distinct_names
from sparkport.spark.query.tables import BoundQuery, NamedTable, QueryTable, Settings, TableBindings
from sparkport.spark.sql_names import literal, quoted
from sparkport.toolkit.bounded_cache import BoundedCache

_CATALOG = "spark_catalog"
_IMPLEMENTATION = "spark.sql.catalogImplementation"
_IN_MEMORY = "in-memory"
TIME_ZONE = "spark.sql.session.timeZone"
_MAX_SESSIONS = 16
_MAX_ANALYSED = 64
_CONF = {
    # Else `${env:HOME}` and `${spark:...}` in a text are replaced by what the server knows.
    "spark.sql.variable.substitute": "false",
    # Else parquet.`/etc/...` is a table.
    "spark.sql.runSQLOnFiles": "false",
    # Else a catalog of the user's gets to know the tables of queries.
    f"spark.sql.catalog.{_CATALOG}": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class QuerySessions:
    """Gives the sessions for queries that belong to a Spark: one for each of the settings used last.

    The catalog of each is of its own and in memory: it has just those tables of the warehouse that were
    asked for, by name and folder, and no views, functions or variables of others.
    """

    def __init__(self, register: Callable[[SparkSession], Collection[str]]) -> None:
        self._register = register
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        self._sessions: OrderedDict[Settings, QuerySession] = OrderedDict()

    def beside(self, call: Call, session: SparkSession, settings: Settings = ()) -> QuerySession:
        """Return the session for queries with settings; others when Spark has been started again."""
        with call.holding(self._lock):
            if self._spark is not session:
                self._spark = session
                self._sessions.clear()
            if settings not in self._sessions:
                made = _new_session(session, settings)
                self._sessions[settings] = QuerySession(made, self._register(made))
            self._sessions.move_to_end(settings)
            while len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)
            return self._sessions[settings]


class QuerySession:
    """Runs queries that were checked. Safe to use from many threads."""

    def __init__(self, session: SparkSession, functions: Collection[str]) -> None:
        self.session = session
        self.functions = functions
        self._tables = TableBindings(self._bind)
        self._analysed: BoundedCache[BoundQuery, DataFrame] = BoundedCache(_MAX_ANALYSED)

    def columns(self, call: Call, query: BoundQuery) -> str:
        """Return the columns of a query in JSON; its analysis is kept for the one who reads the rows."""
        frame = self.frame(call, query)
        # What a transaction sees changes with each of its statements.
        if not any(table.is_private for table in query.tables):
            self._analysed.put(query, frame)
        return frame.schema.json()

    def rows(self, call: Call, query: BoundQuery) -> DataFrame:
        """Return a query to be run once: its first run fixes what it says of the time or of chance."""
        kept = self._analysed.pop(query)
        return self.frame(call, query) if kept is None else kept

    def frame(self, call: Call, query: BoundQuery) -> DataFrame:
        """Return a query, analysed and not run; of columns with one name the later ones get other names.

        Raises for what is not allowed.
        """
        sql, tables = query.sql, query.tables
        with self._active():
            self._parsed_names(sql)  # checks it: the analysis computes constants and reads files
            with self._tables.bind(call, tables):
                frame = self.session.sql(sql)
            analysed = frame._jdf.queryExecution().analyzed().toJSON()  # noqa: SLF001
        rules.check_analysed(read_json(analysed), {table.key for table in tables}, self.functions)
        names = distinct_names(frame.columns)
        return frame if names == frame.columns else frame.toDF(*names)

    def parsed(self, sql: str) -> str:
        """Return the plan of any statement in JSON. None of this looks anything up or computes anything."""
        with self._active():
            state = self.session._jsparkSession.sessionState()  # noqa: SLF001
            return str(state.sqlParser().parsePlan(sql).toJSON())

    def table_names(self, sql: str) -> list[NamedTable]:
        """Return the tables that a query names which may be analysed. Raises for what is not allowed."""
        with self._active():
            return list(dict.fromkeys(self._parsed_names(sql)))

    def explained(self, call: Call, query: BoundQuery) -> str:
        """Return the plan of a query for people to read."""
        execution = self.frame(call, query)._jdf.queryExecution()  # noqa: SLF001
        modes = self.session._jvm.org.apache.spark.sql.execution.ExplainMode  # type: ignore[union-attr]  # noqa: SLF001
        return str(execution.explainString(modes.fromString("formatted")))

    def _parsed_names(self, sql: str) -> list[NamedTable]:
        """Return the tables that a query names which may be analysed.

        What WITH and WINDOW name is put in its place. None of this looks anything up or computes anything.
        """
        jvm = self.session._jvm  # noqa: SLF001
        state = self.session._jsparkSession.sessionState()  # noqa: SLF001
        plan = state.sqlParser().parsePlan(sql)
        plan = jvm.org.apache.spark.sql.catalyst.analysis.CTESubstitution.apply(plan)  # type: ignore[union-attr]
        plan = state.analyzer().WindowsSubstitution().apply(plan)
        count = rules.check_parsed(read_json(plan.toJSON()), self.functions)
        names = list(_relations(plan))
        if len(names) != count:
            raise PermissionDeniedError("query does not allow this way to name a table")
        return names

    def _bind(self, table: QueryTable) -> None:
        """Let a name stand for a table, whatever it stood for before."""
        # With the catalog's name, since a schema may be called as another catalog of the user's is.
        name = quoted(_CATALOG, *table.key)
        self.session.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(_CATALOG, table.key[0])}")
        # Its name alone: the files are not Spark's. Also what is left of an attempt that failed.
        self.session.sql(f"DROP TABLE IF EXISTS {name}")
        forget(table.root, self.session)
        self.session.sql(f"CREATE TABLE {name} USING delta LOCATION {literal(table.root)}")

    @contextlib.contextmanager
    def _active(self) -> Iterator[None]:
        """Let the parser on this thread go by the settings of the queries."""
        jvm = self.session._jvm  # noqa: SLF001
        sessions = jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
        sessions.setActiveSession(self.session._jsparkSession)  # noqa: SLF001
        try:
            yield
        finally:
            sessions.clearActiveSession()


def _new_session(session: SparkSession, settings: Settings) -> SparkSession:
    context = session.sparkContext
    if context.getConf().get(_IMPLEMENTATION, _IN_MEMORY) != _IN_MEMORY:
        raise UnsupportedOperationError("catalog", _CATALOG, "query: it is not in memory")
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    options = jvm.java.util.HashMap()
    for key, value in (*settings, *_CONF.items()):
        options.put(key, value)
    # With a state of its own: a child of the other session would share its catalog.
    java = jvm.org.apache.spark.sql.classic.SparkSession(context._jsc.sc(), options)  # noqa: SLF001
    return SparkSession(context, java)


def _relations(plan: Any, *, is_versioned: bool = False) -> Iterator[NamedTable]:  # noqa: ANN401  (Java objects)
    """Yield the tables that a plan and its subqueries name."""
    for part in (plan, *_to_list(plan.subqueriesAll())):
        for leaf in _to_list(part.collectLeaves()):
            kind = leaf.nodeName()
            if kind == "RelationTimeTravel":
                yield from _relations(leaf.relation(), is_versioned=True)
            elif kind == "UnresolvedRelation":
                yield _named(leaf, is_versioned=is_versioned)


def _named(leaf: Any, *, is_versioned: bool) -> NamedTable:  # noqa: ANN401  (a Java object)
    if leaf.isStreaming() or not leaf.options().isEmpty():
        raise PermissionDeniedError("query does not allow streams, nor options of tables")
    origin = leaf.origin()
    path = tuple(map(str, _to_list(leaf.multipartIdentifier())))
    return NamedTable(path, int(origin.startIndex().get()), int(origin.stopIndex().get()), is_versioned)


def read_json(text: str) -> Any:  # noqa: ANN401
    """Return a plan in JSON as a value. Raises InvalidRequestError."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise InvalidRequestError("the query is nested too deeply") from error


def _to_list(sequence: Any) -> list[Any]:  # noqa: ANN401  (a Scala sequence)
    return [sequence.apply(number) for number in range(sequence.size())]
