"""A scan is planned once, however many endpoints it has, and also after a restart of the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import sparkport
from sparkport.flight import scan_plans
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.engine import Engine
from sparkport.spark.read import planning
from sparkport.spark.read.splits import SplitSizes
from sparkport.spark.session.host import SparkHost
from tests.e2e.spark.lake import equals
from tests.flight_client import Flight, path_descriptor, table_of
from tests.spark.read.lake import Lake

_TOKEN = "the token of both servers"
_TEXTS = ["a0", "a2", "a4", "b1", "b3", "b5", "c6", "c7"]


@pytest.fixture(scope="module")
def table(lake: Lake) -> str:
    """Return a table of several files."""
    for text in _TEXTS:
        row = lake.spark.sql(f"SELECT '{text}' AS text").coalesce(1)
        row.write.format("delta").mode("append").save(str(lake.root("parts")))
    return "parts"


@pytest.fixture
def catalog(spark_host: SparkHost) -> Iterator[SparkCatalog]:
    """Return a catalog that makes an endpoint of each file."""
    engine = Engine(spark_host, sizes=SplitSizes(in_server=0, endpoint=1, first_task=1, task=1))
    yield SparkCatalog(engine)
    engine.jobs.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what a plan costs."""
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)

    count(scan_plans, "scan_options")
    count(planning, "matching_files")
    count(DeltaLog, "_names")
    count(DeltaLog, "_build")
    return counts


def _read(flight: Flight, tickets: list[bytes]) -> list[str]:
    rows = pa.concat_tables([table_of(flight.get(ticket)) for ticket in tickets])
    return sorted(rows.column("text").to_pylist())


@pytest.mark.parametrize(("filters", "expected"), [("", _TEXTS), (equals("b1"), ["b1"])])
def test_endpoints_share_one_plan(
    catalog: SparkCatalog, lake: Lake, table: str, calls: Counter[str], filters: str, expected: list[str]
) -> None:
    """The log is listed and replayed, the filter decoded, files skipped: once each for eight endpoints."""
    address = path_descriptor("lakehouse", lake.schema, table)
    with sparkport.Server(catalog, port=0, token=_TOKEN) as server, Flight(server.location, _TOKEN) as flight:
        tickets = flight.scan(address, [0], filters=filters)
        planned = calls.copy()
        rows = [text for ticket in tickets for text in _read(flight, [ticket])]

    assert len(tickets) == len(expected)
    assert sorted(rows) == expected
    assert planned == {"_names": 1, "_build": 1, "scan_options": 1, "matching_files": 1}
    assert calls == planned


def test_tickets_outlive_a_restart(catalog: SparkCatalog, lake: Lake, table: str) -> None:
    """Another server with the same token plans the scan anew from the ticket."""
    address = path_descriptor("lakehouse", lake.schema, table)
    with sparkport.Server(catalog, port=0, token=_TOKEN) as server, Flight(server.location, _TOKEN) as flight:
        tickets = flight.scan(address, [0])
    with sparkport.Server(catalog, port=0, token=_TOKEN) as server, Flight(server.location, _TOKEN) as flight:
        assert _read(flight, tickets) == _TEXTS
