"""Which functions a Spark catalog brings along."""

from __future__ import annotations

from dataclasses import dataclass

from sparkport.catalog.functions import TableFunction
from sparkport.catalog.tables import Catalog
from sparkport.spark.engine import Engine
from sparkport.spark.functions.changes import TableChanges
from sparkport.spark.functions.description import Detail, Files, History
from sparkport.spark.functions.dropped import Dropped, UndropTable
from sparkport.spark.functions.maintenance import Optimize, Vacuum
from sparkport.spark.query.function import DisabledQuery, Query
from sparkport.spark.query.process import ProcessRunner
from sparkport.spark.query.runner import QueryRunner, SessionRunner
from sparkport.spark.user_functions import SparkScalars

SCHEMA = "sparkport"
COMMENT = "Functions of Delta tables and Spark"
_HOW = "query is switched off on this server (--no-sql)"
_CONNECT = "query is not available over Spark Connect: statements cannot be checked there before they run"


@dataclass(frozen=True, slots=True)
class FunctionFlags:
    """Which functions are enabled: all of them, and `query` with its time limit in seconds."""

    functions: bool = True
    query: bool = True
    query_seconds: float = 600.0


NO_FUNCTIONS = FunctionFlags(functions=False)


def spark_sql(
    engine: Engine, catalog: Catalog, switches: FunctionFlags, scalars: SparkScalars
) -> Query | DisabledQuery:
    """Return what runs queries in Spark SQL over the tables of a catalog, or says why it does not.

    `scalars` are the user's own functions, which queries can call.
    """
    if not engine.capabilities.job_groups:
        return DisabledQuery(_CONNECT)
    runner = _runner(engine, scalars)
    engine.on_close(runner.stop)
    return Query(catalog, runner, switches.query_seconds)


def catalog_functions(
    engine: Engine, catalog: Catalog, switches: FunctionFlags, query: TableFunction, undrop: UndropTable
) -> tuple[TableFunction, ...]:
    """Return the functions over the tables of a catalog; `query` is one if it is switched on."""
    if not switches.functions:
        return ()
    described = [kind(engine, catalog) for kind in (Detail, Files, History, TableChanges, Optimize)]
    vacuums = [Vacuum(engine, catalog, by_name=by_name) for by_name in (True, False)]
    if not switches.query:
        query = DisabledQuery(_HOW)
    return (*described, *vacuums, Dropped(engine.trash), undrop, query)


def _runner(engine: Engine, scalars: SparkScalars) -> QueryRunner:
    """Return what runs queries: on the server's own machine a process that can be killed by itself."""
    if engine.capabilities.local_tasks:
        return ProcessRunner(engine.host.settings, scalars.pickled)
    # A second driver would need executors of its own, which a cluster may not have to give.
    return SessionRunner(engine.jobs, scalars.register)
