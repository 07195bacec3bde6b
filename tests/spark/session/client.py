"""A process with a SparkHost of its own: `client.py STEP SETTINGS`, both sides in JSON."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

import structlog

from sparkport.catalog import Call
from sparkport.errors import SparkportError
from sparkport.spark.errors import RejectedStatementError
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.settings import SparkSettings


def query(host: SparkHost) -> dict[str, Any]:
    """Run a job, a job with Python workers, and a Delta write and read."""
    path = f"{host.settings.warehouse}/numbers"
    with host.use(Call(timeout=100)) as spark:
        total = spark.range(10).selectExpr("sum(id)").collect()[0][0]
        mapped = spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count()
        spark.range(3).write.format("delta").mode("overwrite").save(path)
        stored = spark.read.format("delta").load(path).count()
        zone = spark.conf.get("spark.sql.session.timeZone")
    return {
        "total": total,
        "mapped": mapped,
        "stored": stored,
        "zone": zone,
        "refused": refusal(host, "select * from nowhere"),
        "unreadable": refusal(host, "selec 1"),
        "is_connect": host.is_connect,
        "is_embedded": host.is_embedded,
    }


def refusal(host: SparkHost, statement: str) -> str:
    """Return the error of a statement that fails."""
    try:
        with host.use(Call(timeout=100)) as spark:
            spark.sql(statement).collect()
    except (SparkportError, RejectedStatementError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def crash(host: SparkHost) -> dict[str, Any]:
    """Kill the Java process under a running job, then use Spark again."""
    host.session(Call(timeout=100))
    first = host.process_id
    errors: list[str] = []

    def work() -> None:
        errors.append(refusal(host, "select sum(a.id * b.id) from range(10000000) a, range(1000000) b"))

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(3)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    worker.join(30)
    with host.use(Call(timeout=100)) as spark:
        rows = spark.range(7).count()
    return {"error": errors[0], "rows": rows, "same_process": host.process_id == first}


def serve(host: SparkHost) -> dict[str, Any]:
    """Tell the Java process and wait to be killed."""
    host.session(Call(timeout=100))
    assert host.process_id is not None
    sys.stdout.write(f"{host.process_id}\n")
    sys.stdout.flush()
    time.sleep(120)
    return {}


def main() -> None:
    """Run one step and print what came out."""
    level = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=level, logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    host = SparkHost(SparkSettings(**json.loads(sys.argv[2])))
    host.start()
    result = {"query": query, "crash": crash, "serve": serve}[sys.argv[1]](host)
    host.stop()
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
