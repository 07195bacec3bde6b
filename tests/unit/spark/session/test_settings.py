from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sparkport.spark.session.settings import (
    SparkSettings,
    cache_folder,
    default_driver_memory,
    session_conf,
    start_conf,
)

SCRATCH = Path("/scratch")
JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local[2,3]"])
def test_local_masters_are_embedded(master: str) -> None:
    """Spark in a process of the server's own is told by the master."""
    assert SparkSettings("/data", master=master).is_embedded


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_clusters_are_not_embedded(master: str) -> None:
    """A cluster's executors run elsewhere."""
    settings = SparkSettings("/data", master=master)

    assert not settings.is_embedded
    assert settings.python is None


@pytest.mark.parametrize("master", ["", "locale", "local[x]", "mesos://host", "http://host"])
def test_other_masters_are_refused(master: str) -> None:
    """A typing error is told at the start, not by Spark."""
    with pytest.raises(ValueError, match="is not a Spark master: use local"):
        SparkSettings("/data", master=master)


def test_a_remote_address_has_its_scheme() -> None:
    """Only Spark Connect addresses are remote."""
    with pytest.raises(ValueError, match="begins with sc://, not 'spark://host'"):
        SparkSettings("/data", remote="spark://host")


def test_an_empty_warehouse_is_refused() -> None:
    """An empty path would be the current folder."""
    with pytest.raises(ValueError, match="the warehouse needs a path"):
        SparkSettings("")


def test_a_remote_session_is_neither_embedded_nor_in_need_of_jars() -> None:
    """The server behind the address has its own."""
    settings = SparkSettings("/data", remote="sc://host")

    assert settings.is_connect
    assert not settings.is_embedded
    assert settings.brings_delta


@pytest.mark.parametrize(
    ("machine", "memory"), [(2 << 30, "1024m"), (16 << 30, "4096m"), (256 << 30, "8192m"), (6 << 30, "1536m")]
)
def test_the_driver_gets_a_quarter_of_the_machine(machine: int, memory: str) -> None:
    """At least one and at most eight GiB."""
    assert default_driver_memory(machine) == memory


def test_the_users_entries_win() -> None:
    """An entry of the user replaces ours."""
    conf = {"spark.driver.memory": "3g", "spark.sql.session.timeZone": "Europe/Berlin"}
    entries = start_conf(SparkSettings("/data", conf=conf, driver_memory="2g"), JARS, SCRATCH)

    assert entries["spark.driver.memory"] == "3g"
    assert entries["spark.sql.session.timeZone"] == "Europe/Berlin"


def test_lists_are_joined() -> None:
    """A user who adds an extension or a Java option keeps Delta and the log settings."""
    conf = {"spark.sql.extensions": "org.example.Mine", "spark.driver.extraJavaOptions": "-Dmine=1"}
    entries = start_conf(SparkSettings("/data", conf=conf), JARS, SCRATCH, ["-Dours=1"])

    assert entries["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,org.example.Mine"
    assert entries["spark.driver.extraJavaOptions"] == (
        "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
        " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
        " -Dlog4j2.configurationFile=file:///scratch/log4j2.properties"
        " -Dderby.system.home=/scratch -Dours=1 -Dmine=1"
    )


def test_an_embedded_spark_listens_on_loopback_and_writes_to_its_scratch_folder() -> None:
    """Nobody else can reach it, and nothing of it lands in the current folder."""
    entries = start_conf(SparkSettings("/data", master="local[3]"), JARS, SCRATCH)

    assert entries["spark.driver.host"] == "127.0.0.1"
    assert entries["spark.driver.bindAddress"] == "127.0.0.1"
    assert entries["spark.local.dir"] == "/scratch/local"
    assert entries["spark.sql.shuffle.partitions"] == "3"
    assert entries["spark.driver.extraClassPath"] == os.pathsep.join(["/jars/a.jar", "/jars/b.jar"])
    assert "spark.jars" not in entries


def test_a_cluster_gets_the_jars_and_keeps_its_own_layout() -> None:
    """Executors fetch the jars from the driver; addresses and folders are the cluster's matter."""
    entries = start_conf(SparkSettings("/data", master="spark://host:7077"), JARS, SCRATCH)

    assert entries["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert not {"spark.driver.host", "spark.local.dir", "spark.sql.shuffle.partitions"} & set(entries)


def test_options_with_spaces_are_quoted() -> None:
    """Spark splits Java options at spaces."""
    entries = start_conf(SparkSettings("/data"), (), Path("/my scratch"))

    assert '"-Dderby.system.home=/my scratch"' in entries["spark.driver.extraJavaOptions"]
    assert "spark.driver.extraClassPath" not in entries


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0"},
        {"spark.jars": "/opt/delta-spark_4.1_2.13-4.4.0.jar,/opt/delta-storage-4.4.0.jar"},
    ],
)
def test_a_user_who_brings_delta_gets_no_second_one(conf: dict[str, str]) -> None:
    """Two versions of Delta on one class path break each other."""
    assert SparkSettings("/data", conf=conf).brings_delta


def test_relative_warehouses_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same folder is meant by Spark and by the server; addresses of object stores stay."""
    monkeypatch.chdir(tmp_path)

    local = start_conf(SparkSettings("data"), (), SCRATCH)
    remote = start_conf(SparkSettings("s3a://bucket/data"), (), SCRATCH)
    assert local["spark.sql.warehouse.dir"] == str(tmp_path / "data")
    assert remote["spark.sql.warehouse.dir"] == "s3a://bucket/data"


def test_what_is_set_over_spark_connect_can_be_set_there() -> None:
    """A running server refuses entries of its start."""
    assert all(
        key.startswith(("spark.sql.", "spark.databricks.delta."))
        for key in session_conf(SparkSettings("/data", remote="sc://host"))
    )


def test_the_cache_folder_follows_the_environment() -> None:
    """XDG_CACHE_HOME moves it."""
    assert cache_folder({"XDG_CACHE_HOME": "/elsewhere"}) == Path("/elsewhere/sparkport")
    assert cache_folder({}) == Path.home() / ".cache" / "sparkport"


def test_embedded_workers_run_the_servers_python() -> None:
    """They need the same packages; a given Python wins."""
    assert SparkSettings("/data").python == sys.executable
    assert SparkSettings("/data", conf={"spark.pyspark.python": "/opt/python"}).python == "/opt/python"


def test_the_users_ivy_settings_come_from_the_conf_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark's own entry wins over our variable."""
    monkeypatch.setenv("SPARKPORT_IVY_SETTINGS", "/env.xml")

    assert SparkSettings("/data").ivy_settings == "/env.xml"
    assert SparkSettings("/data", conf={"spark.jars.ivySettings": "/conf.xml"}).ivy_settings == "/conf.xml"


def test_large_offsets_are_refused() -> None:
    """Rows would be misread that Spark writes with them."""
    name = "spark.sql.execution.arrow.useLargeVarTypes"

    assert session_conf(SparkSettings("w"))[name] == "false"
    with pytest.raises(ValueError, match="has to stay false"):
        SparkSettings("w", conf={name: "True"})


def test_executors_fetch_nothing_that_xml_refers_to() -> None:
    """The last of several options counts, so that the user's cannot undo ours."""
    settings = SparkSettings(
        "/data", master="yarn", conf={"spark.executor.extraJavaOptions": "-Djavax.xml.accessExternalDTD=all"}
    )
    options = start_conf(settings, JARS, SCRATCH)["spark.executor.extraJavaOptions"].split()

    assert options[0] == "-Djavax.xml.accessExternalDTD=all"
    assert options[1:] == ["-Djavax.xml.accessExternalDTD=", "-Djavax.xml.accessExternalSchema="]


def test_an_embedded_spark_authenticates_who_connects() -> None:
    """On a cluster it is the user's to set up."""
    assert start_conf(SparkSettings("/data"), JARS, SCRATCH)["spark.authenticate"] == "true"
    assert "spark.authenticate" not in start_conf(SparkSettings("/data", master="yarn"), JARS, SCRATCH)


def test_on_a_cluster_tasks_that_do_not_end_cost_their_executor() -> None:
    """In local mode that would be the driver, and Spark does not do it."""
    conf = start_conf(SparkSettings("/data", master="yarn"), JARS, SCRATCH)

    assert conf["spark.task.reaper.enabled"] == "true"
    assert conf["spark.task.reaper.killTimeout"] == "60s"
    assert "spark.task.reaper.enabled" not in start_conf(SparkSettings("/data"), JARS, SCRATCH)
