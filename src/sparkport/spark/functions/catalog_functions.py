"""Which functions a Spark catalog brings along."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession

from sparkport.catalog.functions import TableFunction
from sparkport.catalog.tables import Catalog
from sparkport.spark.engine import Engine
from sparkport.spark.functions.changes import TableChanges
from sparkport.spark.functions.description import Detail, Files, History
from sparkport.spark.functions.dropped import Dropped, UndropTable
from sparkport.spark.functions.maintenance import Optimize, Vacuum
from sparkport.spark.functions.query import NoQuery, Query
from sparkport.spark.functions.query_session import QuerySessions

SCHEMA = "sparkport"
COMMENT = "Functions of Delta tables and Spark"
_HOW = "query is off on this server; it is switched on with `sparkport serve --allow-query`"
_CONNECT = "query is not there over Spark Connect, where a statement cannot be checked before it runs"


@dataclass(frozen=True, slots=True)
class Switches:
    """What is on: the functions as such, and `query`, which lets clients use Spark as they like."""

    functions: bool = True
    query: bool = False


NO_FUNCTIONS = Switches(functions=False)


def catalog_functions(
    engine: Engine,
    catalog: Catalog,
    switches: Switches,
    register: Callable[[SparkSession], Collection[str]],
    undrop: UndropTable,
) -> tuple[TableFunction, ...]:
    """Return the functions over the tables of a catalog.

    `register` gives a session for queries the user's own functions and returns their names.
    """
    if not switches.functions:
        return ()
    described = [kind(engine, catalog) for kind in (Detail, Files, History, TableChanges, Optimize)]
    vacuums = [Vacuum(engine, catalog, by_name=by_name) for by_name in (True, False)]
    query: TableFunction
    if engine.host.is_connect or not switches.query:
        query = NoQuery(_CONNECT if engine.host.is_connect and switches.query else _HOW)
    else:
        query = Query(engine, catalog, QuerySessions(register))
    return (*described, *vacuums, Dropped(engine.trash), undrop, query)
