"""The Java process of a session: started, listened to, ended.

PySpark keeps its session, context and gateway in private variables of its classes and
has no public way to begin anew once the process behind them is gone.
"""

# ruff: noqa: SLF001 (for the reason above)

from __future__ import annotations

import collections
import contextlib
import logging
import os
import shlex
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pyspark
import structlog
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession, SQLContext

from sparkport.errors import UnavailableError
from sparkport.spark.session.java_home import VECTOR_MODULE, JavaHome
from sparkport.spark.session.settings import IVY_SETTINGS, NO_EXTERNAL_XML

SPARK_HOME = Path(pyspark.__file__).parent

_log = structlog.get_logger("sparkport.spark")

# One line per event, so that the reader can tell Spark's levels apart; traces are in the errors themselves.
_LOG4J = """\
status = fatal
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %p %c{1}: %replace{%m}{[\\r\\n]+}{ }%ex{none}%n
"""

_LAUNCHER = """\
#!/bin/sh
for option do
    shift
    [ "$option" = --add-modules={module} ] || set -- "$@" "$option"
done
exec {java} "$@"
"""

# Spark's own redaction rule. The command line of a process can be read by everyone on the machine.
_SECRET_WORDS = ("secret", "password", "token", "access.key", "accesskey")

_SERVER_VARIABLES = "SPARKPORT_"
_REMEMBERED_LINES = 50
_CAUSES = ("Caused by: ", "Exception in thread ")


class Jvm:
    """A Java process with a Py4J gateway, which ends when this process does.

    It has a session of its own, so that the terminal's Ctrl-C ends the server first;
    and it ends by itself when its standard input closes, also after a kill -9.
    """

    def __init__(self, java: JavaHome, conf: Mapping[str, str], scratch: Path) -> None:
        self._scratch = scratch
        self._last_lines: collections.deque[str] = collections.deque(maxlen=_REMEMBERED_LINES)
        (scratch / "log4j2.properties").write_text(_LOG4J)
        self.process = subprocess.Popen(  # noqa: S603
            _command(conf),
            env=_environment(java, scratch, conf),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        threading.Thread(
            target=self._listen, args=(self.process.stdout,), name="spark-output", daemon=True
        ).start()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    @property
    def last_lines(self) -> list[str]:
        """What the process said last."""
        return list(self._last_lines)

    @property
    def last_cause(self) -> str:
        """The deepest cause of the last exception among these, an empty text without one."""
        return next((line for line in reversed(self._last_lines) if line.startswith(_CAUSES)), "")

    def connect(self) -> Any:  # noqa: ANN401
        """Wait for the gateway and return it."""
        address = self._scratch / "gateway"
        while not address.is_file():
            if not self.alive:
                raise UnavailableError(f"Spark's Java process ended with code {self.process.returncode}")
            time.sleep(0.02)
        with address.open("rb") as file:
            port, length = struct.unpack("!ii", file.read(8))
            secret = file.read(length).decode()
        # PySpark's own way to a gateway that runs already: it also imports the classes that PySpark needs.
        os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        # Here and not on the command line, where options of the user's could undo it, and where it would
        # keep Ivy from reading its own schemas.
        for name in NO_EXTERNAL_XML:
            gateway.jvm.java.lang.System.setProperty(name, "")
        return gateway

    def end(self, patience: float) -> None:
        """End the process and its Python workers, by force when it takes longer than `patience` seconds."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.wait()

    def _listen(self, output: IO[bytes]) -> None:
        with output:
            for raw in output:
                line = raw.decode(errors="replace").rstrip()
                self._last_lines.append(line)
                level, _, text = line.partition(" ")
                if level == "FATAL":
                    _log.error("spark", line=text)
                else:
                    # Spark reports as errors what the failing call is told anyway.
                    _log.debug("spark", line=line)


def has_session() -> bool:
    """Return whether PySpark has a session in this process."""
    return pyspark.SparkContext._active_spark_context is not None


def new_session(gateway: Any, conf: Mapping[str, str], python: str | None) -> SparkSession:  # noqa: ANN401
    """Make the session of a fresh gateway, with workers of the given Python."""
    entries = pyspark.SparkConf(loadDefaults=False).setAll(list(conf.items()))
    context = pyspark.SparkContext(conf=entries, gateway=gateway)
    # The server for accumulators would print a trace when the process that feeds it dies.
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    if python is not None:
        context.pythonExec = python
    return SparkSession(context)


def forget_session() -> None:
    """Make PySpark forget its session, context and gateway, so that this process can have new ones."""
    context = pyspark.SparkContext
    with context._lock:
        server = getattr(context._active_spark_context, "_accumulatorServer", None)
        if server is not None:
            server.shutdown()
        if context._gateway is not None:
            # Finalizers of Java objects would go on calling a process that is gone.
            context._gateway._gateway_client.is_connected = False
        context._gateway = context._jvm = context._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None


def _command(conf: Mapping[str, str]) -> list[str]:
    command = [str(SPARK_HOME / "bin" / "spark-submit")]
    for key, value in conf.items():
        if not any(word in key.lower() for word in _SECRET_WORDS):
            command += ["--conf", f"{key}={value}"]
    return [*command, "pyspark-shell"]


def child_environment() -> dict[str, str]:
    """Return the environment for a process of the server's own, without the settings of the server.

    The token is among them, and SPARKPORT_CONF may have keys of an object store. What Spark's tasks run,
    the functions of users too, can read the environment of their process.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_SERVER_VARIABLES) or name == IVY_SETTINGS
    }


def _environment(java: JavaHome, scratch: Path, conf: Mapping[str, str]) -> dict[str, str]:
    # Else Spark looks up the machine's own name, which not every container and laptop can resolve.
    address = conf.get("spark.driver.bindAddress")
    return {
        **({"SPARK_LOCAL_IP": address} if address else {}),
        **child_environment(),
        "JAVA_HOME": str(java.path if java.has_vectors else _without_vectors(java, scratch)),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_CONNECT_MODE": "0",
        # The script first runs a small Java program that prints the real command.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "gateway"),
    }


def _without_vectors(java: JavaHome, scratch: Path) -> Path:
    """Return a home whose launcher drops the module that Spark always asks for and this Java lacks."""
    launcher = scratch / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_LAUNCHER.format(module=VECTOR_MODULE, java=shlex.quote(str(java.executable))))
    launcher.chmod(0o700)
    return scratch / "java"


def silence_pyspark() -> None:
    """Drop what Py4J and PySpark write to standard error about errors that they also raise."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _not_from_py4j not in root.filters:
        root.addFilter(_not_from_py4j)


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
