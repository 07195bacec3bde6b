"""Spark in processes of its own: a standalone cluster and a Spark Connect server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sparkport.spark.session.delta_jars import delta_jars
from sparkport.spark.session.java_home import find_java
from sparkport.spark.session.process import SPARK_HOME
from sparkport.spark.session.settings import SparkSettings, start_conf

START_SECONDS = 90

# The second compiler costs more in a short run than it gains: half of all CPU time.
FAST_START = "-XX:TieredStopAtLevel=1"

# So does compiling each query to Java, for the few rows of a test: another quarter. Servers in processes of
# their own, in tests/e2e, run with Spark's defaults.
FAST_CONF = {
    "spark.driver.extraJavaOptions": FAST_START,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Run a master with two workers, each a process of its own, and yield the master's address."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as processes:
        master = ["org.apache.spark.deploy.master.Master", *common, "--port", str(port)]
        processes.enter_context(_running(master, folder / "master.log", port))
        for number in (1, 2):
            worker_port = free_port()
            worker = ["org.apache.spark.deploy.worker.Worker", *common, "--port", str(worker_port)]
            worker += ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}")]
            log = folder / f"worker-{number}.log"
            processes.enter_context(_running([*worker, address], log, worker_port))
        yield address


@contextmanager
def connect_server(folder: Path, python: str = sys.executable) -> Iterator[str]:
    """Run a Spark Connect server with Delta, whose workers are of the given Python; yield its address."""
    port = free_port()
    own = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    # The daemon of an embedded session is a part of sparkport.
    own |= {"spark.python.daemon.module": "pyspark.daemon"}
    settings = SparkSettings(str(folder / "warehouse"), master="local[2]", driver_memory="1g", conf=own)
    command = ["org.apache.spark.deploy.SparkSubmit"]
    entries = start_conf(settings, delta_jars(settings.jars_folder), folder)
    for key, value in (entries | {"spark.driver.extraJavaOptions": FAST_START}).items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with _running(command, folder / "connect.log", port, memory="1g", python=python):
        yield f"sc://127.0.0.1:{port}"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(
    command: list[str], log: Path, port: int, *, memory: str = "256m", python: str = sys.executable
) -> Iterator[None]:
    """Run one of Spark's programs for as long as the block, once it listens."""
    env = {
        **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        "JAVA_HOME": str(find_java().path),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": FAST_START,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *command],
            env=env,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _await_port(port, process, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"{log.stem} did not come up:\n{log.read_text(errors='replace')[-2000:]}")
