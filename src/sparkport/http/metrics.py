"""The numbers of a server for Prometheus."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparkport.catalog.measures import MEASURES
from sparkport.flight.context import ServerContext
from sparkport.flight.statement_registry import FinishedRequest

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)

_COUNTS = {
    "commits": "Statements that were committed",
    "conflicts": "Statements that failed because another changed the same rows first",
    "commit_retries": "Commits that were tried again after one of others",
    "commit_groups": "Commits that several INSERTs could share",
    "grouped_statements": "INSERTs in these commits",
    "files_skipped": "Data files that scans left out by their statistics",
    "spark_jobs_failed": "Pieces of work that Spark did not finish",
    "spark_restarts": "How often Spark was lost and started again",
}
_LEVELS = {
    "spark_jobs_running": "Pieces of work that Spark works on",
    "spark_jobs_queued": "Pieces of work that wait for a thread",
    "open_transactions": "Transactions that wait for a commit",
}
_GAUGES = {
    "jvm_memory_bytes": "Memory of Spark's process",
    "staging_bytes": "Rows on disk that are not committed",
    "spool_bytes": "Rows on disk that Spark has written and no client has read",
    "warehouse_free_bytes": "Free space on the disk of the warehouse",
}
_CACHES = ("listing", "plan")


class Metrics:
    """Counts the requests of a server, and collects what its parts count themselves."""

    def __init__(self, context: ServerContext, sessions: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "sparkport_requests",
            "Requests that have ended",
            ("method", "dialect", "code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "sparkport_request_seconds",
            "How long requests took, until their last row was sent",
            ("method",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._rows = Counter(
            "sparkport_rows", "Rows that were received and sent", ("direction",), registry=self.registry
        )
        self._bytes = Counter(
            "sparkport_bytes", "Bytes that were received and sent", ("direction",), registry=self.registry
        )
        self._scans = Counter("sparkport_scans", "Scans", ("read_mode",), registry=self.registry)
        self.registry.register(_Parts(context, sessions))
        context.statements.observe(self._observe)

    def text(self) -> bytes:
        """Return all numbers in Prometheus' format."""
        return generate_latest(self.registry)

    def pulse(self) -> dict[str, float]:
        """Return the few sums that the console plots."""
        requests = seconds = 0.0
        for family in self._seconds.collect():
            for sample in family.samples:
                requests += sample.value if sample.name.endswith("_count") else 0
                seconds += sample.value if sample.name.endswith("_sum") else 0
        return {
            "requests": requests,
            "seconds": seconds,
            "rows": self._rows.labels("out")._value.get() + self._rows.labels("in")._value.get(),  # noqa: SLF001
            "bytes": self._bytes.labels("out")._value.get() + self._bytes.labels("in")._value.get(),  # noqa: SLF001
            "memory": float(memory_bytes()) + MEASURES.measured("jvm_memory_bytes"),
        }

    def _observe(self, request: FinishedRequest) -> None:
        self._requests.labels(request.method, request.dialect, request.code).inc()
        self._seconds.labels(request.method).observe(request.seconds)
        for direction, rows, size in (
            ("in", request.rows_in, request.bytes_in),
            ("out", request.rows_out, request.bytes_out),
        ):
            if rows:
                self._rows.labels(direction).inc(rows)
            if size:
                self._bytes.labels(direction).inc(size)
        if request.kind == "scan":
            self._scans.labels(request.read_mode or "engine").inc()


class _Parts(Collector):
    def __init__(self, context: ServerContext, sessions: Callable[[], int]) -> None:
        self._context = context
        self._sessions = sessions

    def collect(self) -> Iterable[Metric]:
        """Yield what the parts of the server have counted, and how much there is of things now."""
        for name, text in _COUNTS.items():
            yield CounterMetricFamily(f"sparkport_{name}", text, value=MEASURES.value(name))
        for name, text in _LEVELS.items():
            yield GaugeMetricFamily(f"sparkport_{name}", text, value=MEASURES.value(name))
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(f"sparkport_{name}", text, value=MEASURES.measured(name))
        hits = CounterMetricFamily("sparkport_cache_hits", "Answers from a cache", labels=("cache",))
        misses = CounterMetricFamily("sparkport_cache_misses", "Answers not in a cache", labels=("cache",))
        for cache in _CACHES:
            hits.add_metric([cache], MEASURES.value(f"cache_hits_{cache}"))
            misses.add_metric([cache], MEASURES.value(f"cache_misses_{cache}"))
        yield hits
        yield misses
        statements = self._context.statements
        yield GaugeMetricFamily(
            "sparkport_statements_running", "Statements that run", value=statements.running()
        )
        yield GaugeMetricFamily(
            "sparkport_statements_queued",
            "Statements that wait for others to end",
            value=self._context.queue.waiting(),
        )
        yield GaugeMetricFamily(
            "sparkport_streams_open", "Streams that are open", value=statements.open_streams()
        )
        yield GaugeMetricFamily(
            "sparkport_rows_memory_bytes",
            "Memory for rows of calls that are not committed",
            value=self._context.resources.rows.held,
        )
        yield GaugeMetricFamily(
            "sparkport_sessions_open", "Open sessions of the console", value=self._sessions()
        )
        yield GaugeMetricFamily("sparkport_memory_bytes", "Memory of the server", value=memory_bytes())


def memory_bytes() -> int:
    """Return the memory of this process."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
