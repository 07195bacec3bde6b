"""Who can reach the process of an embedded Spark: the server alone."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from sparkport.spark.session.host import SparkHost

_LISTEN = "0A"
_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def _listening(process_id: int) -> set[str]:
    """Return the addresses that a process listens on, as Linux writes them."""
    sockets = set()
    for link in Path(f"/proc/{process_id}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    tables = [Path(f"/proc/net/{kind}").read_text() for kind in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()]
    return {line[1].partition(":")[0] for line in lines if line[3] == _LISTEN and line[9] in sockets}


@pytest.mark.needs("linux", Path("/proc/net/tcp").exists(), "other kernels have no /proc/net")
def test_spark_listens_on_loopback_only(spark: SparkSession, spark_host: SparkHost) -> None:
    """Nothing of it can be reached from another machine."""
    del spark
    assert spark_host.process_id is not None
    addresses = _listening(spark_host.process_id)

    assert addresses
    assert addresses <= _LOOPBACK


def test_the_gateway_needs_its_token(spark: SparkSession) -> None:
    """Another program on the machine cannot call Java through the server's gateway."""
    ours = spark.sparkContext._gateway
    assert ours is not None
    parameters = ours.gateway_parameters
    assert parameters.auth_token
    for token in (None, "guess"):
        other = JavaGateway(gateway_parameters=GatewayParameters(port=parameters.port, auth_token=token))
        with pytest.raises(Py4JError):
            other.jvm.java.lang.System.currentTimeMillis()
        other.close()


def test_sparks_own_ports_need_a_secret(spark: SparkSession, spark_host: SparkHost) -> None:
    """Spark makes it up; neither the command line nor the environment has it."""
    security = spark._jvm.org.apache.spark.SparkEnv.get().securityManager()  # type: ignore[union-attr]
    assert security.isAuthenticationEnabled()
    secret = security.getSecretKey().encode()
    process = Path(f"/proc/{spark_host.process_id}")

    assert len(secret) >= 32
    if process.exists():
        assert secret not in (process / "cmdline").read_bytes()
        assert secret not in (process / "environ").read_bytes()
