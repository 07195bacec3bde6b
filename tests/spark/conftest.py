"""One Spark session for all tests that need one, and clusters for those that need another kind."""

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
from pyspark.sql import SparkSession

from sparkport.catalog import Call
from sparkport.spark.jars import delta_jars
from sparkport.spark.java import find_java
from sparkport.spark.jvm import SPARK_HOME
from sparkport.spark.session import SparkHost
from sparkport.spark.settings import SparkSettings, start_conf

_START_SECONDS = 90

# The second compiler costs more in a short run than it gains: half of all CPU time.
_FAST_START = "-XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session")
def spark_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    """Return the host of an embedded session with Delta."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    conf = {"spark.driver.extraJavaOptions": _FAST_START}
    host = SparkHost(
        SparkSettings(warehouse, master="local[2]", conf=conf, driver_memory="1g", warm_up=False)
    )
    host.start()
    yield host
    host.stop()


@pytest.fixture(scope="session")
def spark(spark_host: SparkHost) -> SparkSession:
    """Return an embedded session with Delta."""
    return spark_host.session(Call(timeout=_START_SECONDS))


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a master with two workers, each a process of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as processes:
        master = ["org.apache.spark.deploy.master.Master", *common, "--port", str(port)]
        processes.enter_context(_running(master, folder / "master.log", port))
        for number in (1, 2):
            worker_port = _free_port()
            worker = ["org.apache.spark.deploy.worker.Worker", *common, "--port", str(worker_port)]
            worker += ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}")]
            log = folder / f"worker-{number}.log"
            processes.enter_context(_running([*worker, address], log, worker_port))
        yield address


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a Spark Connect server with Delta."""
    folder = tmp_path_factory.mktemp("connect")
    port = _free_port()
    own = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    settings = SparkSettings(str(folder / "warehouse"), master="local[2]", driver_memory="1g", conf=own)
    command = ["org.apache.spark.deploy.SparkSubmit"]
    entries = start_conf(settings, delta_jars(settings.jars_folder), folder)
    for key, value in (entries | {"spark.driver.extraJavaOptions": _FAST_START}).items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with _running(command, folder / "connect.log", port, "1g"):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _running(command: list[str], log: Path, port: int, memory: str = "256m") -> Iterator[None]:
    """Run one of Spark's programs for as long as the block, once it listens."""
    env = {
        **os.environ,
        "JAVA_HOME": str(find_java().path),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": _FAST_START,
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
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"{log.stem} did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
