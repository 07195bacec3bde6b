"""A warehouse in an object store: an S3 server in this process, reached by Arrow and by Spark."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from moto.server import ThreadedMotoServer
from pyarrow import fs

from sparkport.errors import PreconditionError
from tests.flight_client import refusal
from tests.requirements import missing

from .lake import LakeServer, in_order, wait_until

pytestmark = pytest.mark.timeout(300)

STOCK = pa.table({"item": ["pencil", "ruler"], "pieces": pa.array([10, 3], pa.int32())})
ROWS = [{"item": "pencil", "pieces": 10}, {"item": "ruler", "pieces": 3}]
FEWER = pa.table({"item": ["pencil"], "pieces": pa.array([9], pa.int32())})

SDK = "2.29.52"
PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.4.2",
    f"software.amazon.awssdk:s3:{SDK}",
    f"software.amazon.awssdk:s3-transfer-manager:{SDK}",
)


class Store:
    """A bucket, and what programs need to know of it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = f"http://{endpoint}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": "something",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }
        self.options = self.environment | {"AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}
        self.files = fs.S3FileSystem(
            access_key="someone",
            secret_key="something",
            region="us-east-1",
            endpoint_override=endpoint,
            scheme="http",
            allow_bucket_creation=True,
        )
        self.files.create_dir("lake")

    def write(self, path: str) -> None:
        """Put an object there, as somebody else would."""
        with self.files.open_output_stream(path) as file:
            file.write(b"x")

    def below(self, folder: str) -> list[str]:
        """Return the files in a folder of the bucket and below."""
        found = self.files.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        return [info.path for info in found if info.type == fs.FileType.File]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Return an empty bucket `lake`."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield Store(f"{host}:{port}")
    server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[LakeServer]:
    """Serve a folder of the bucket with Spark's own way to S3, or skip where that cannot be fetched."""
    conf = {
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.jars.excludes": "software.amazon.awssdk:bundle",  # twenty times as large, for all of AWS
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    flags = [f"--conf={key}={value}" for key, value in conf.items()]
    folder = tmp_path_factory.mktemp("store")
    with LakeServer(folder, *flags, address="s3a://lake/w", env=store.environment) as running:
        assert running.location
        wait_until(lambda: "Spark is up" in running.text or "could not be" in running.text, "no Spark")
        if "unresolved dependenc" in running.text:
            missing("s3", "Hadoop's jars for S3 cannot be fetched")
        yield running


def test_tables_live_in_a_bucket(server: LakeServer, store: Store) -> None:
    """All that makes, fills, changes and drops a table works, others read it, and nothing else is left."""
    with server.client() as client:
        client.create_schema("shop", comment="in a bucket")
        client.create_table("shop", "stock", STOCK.schema)
        client.insert("shop", "stock", STOCK)
        made = server.rows("shop", "stock")
        ids = client.scan("shop", "stock").read_all()["rowid"].to_pylist()
        changed = client.update("shop", "stock", ids[:1], FEWER)
        removed = client.delete("shop", "stock", ids[1:])
        kept = server.rows("shop", "stock")
        others = DeltaTable("s3://lake/w/shop.db/stock", storage_options=store.options).version()
        names = server.tables()
        client.drop_table("shop", "stock")
        left = server.tables(), store.below("lake/w/shop.db/stock"), store.below("lake/w/_sparkport/staging")
        client.drop_schema("shop")

    assert made == ROWS
    assert (changed.affected_rows, removed.affected_rows) == (1, 1)
    assert kept == [{"item": "pencil", "pieces": 9}]
    assert others == 3
    assert names == ["shop.stock"]
    assert left == ([], [], [])
    assert store.below("lake/w/shop.db") == []
    assert [path.rpartition("/")[0] for path in store.below("lake/w")] == ["lake/w/_sparkport/servers"]


def test_tables_of_others_are_read_and_appended_to(server: LakeServer, store: Store) -> None:
    """Whatever their files are called: keys are not percent-encoded a second time."""
    rows = pa.table({"n": [1, 2, 3], "part": ["a b", "100%", "ä/ö"]})
    write_deltalake("s3://lake/w/outside", rows, partition_by=["part"], storage_options=store.options)
    wait_until(lambda: "default.outside" in server.tables(), "the table was not found", seconds=10)
    read = server.rows("default", "outside")
    server.insert("default", "outside", rows.slice(0, 1))

    assert read == in_order(rows)
    assert server.rows("default", "outside") == sorted([*read, read[0]], key=repr)


def test_what_a_store_cannot_do_is_refused(server: LakeServer) -> None:
    """Nothing can be renamed at once there."""
    with server.client() as client, server.flight() as flight:
        client.create_schema("refused")
        client.create_table("refused", "stock", STOCK.schema)
        rename = {"catalog": "lakehouse", "schema": "refused", "name": "stock", "new_table_name": "other"}
        told = refusal(lambda: flight.action("rename_table", rename | {"ignore_not_found": False}))
        tables = server.tables()

    assert told == (
        "FAILED_PRECONDITION",
        "table 'refused.stock' does not support RENAME in an object store",
    )
    assert "refused.stock" in tables


def test_objects_of_others_stay(server: LakeServer, store: Store) -> None:
    """A store has no folders: dropping a table or a schema removes the objects that are theirs alone."""
    with server.client() as client:
        client.create_schema("mixed")
        for name in ("stock", "spare"):
            client.create_table("mixed", name, STOCK.schema)
            client.insert("mixed", name, STOCK)
        store.write("lake/w/mixed.db/stock/report.csv")
        store.write("lake/w/mixed.db/raw/1.csv")
        store.write("lake/w/mixed/2.csv")
        refused = [
            told(functools.partial(client.drop_schema, "mixed", cascade=flag)) for flag in (False, True)
        ]
        before = len(store.below("lake/w/mixed.db"))
        client.drop_table("mixed", "stock")
        left = store.below("lake/w/mixed.db/stock")
        store.files.delete_dir("lake/w/mixed.db/raw")
        store.files.delete_dir("lake/w/mixed.db/stock")
        dropped = client.drop_schema("mixed", cascade=True)

    assert refused == [
        (
            "schema 'mixed' contains tables (2 tables: 'spare', 'stock'); drop them first or use cascade;"
            " its folder also holds 'raw', which is no table of this server"
        ),
        (
            "schema 'mixed' is not empty: its folder holds 'raw', which is no table of this server;"
            " move it away first"
        ),
    ]
    assert before > 4
    assert left == ["lake/w/mixed.db/stock/report.csv"]
    assert dropped == 1
    assert store.below("lake/w/mixed.db") == []
    assert store.below("lake/w/mixed") == ["lake/w/mixed/2.csv"]


def test_table_within_another_holds_it(server: LakeServer, store: Store) -> None:
    """What lies below the name of a table may be another one."""
    options = store.options
    write_deltalake("s3://lake/w/outer", STOCK, storage_options=options)
    write_deltalake("s3://lake/w/outer/inner", STOCK, storage_options=options)
    wait_until(lambda: "default.outer" in server.tables(), "the table was not found", seconds=10)
    with server.client() as client:
        refused = told(lambda: client.drop_table("default", "outer"))

    assert refused == "the folder of this table contains another table, in 'inner'; move that one away first"
    assert DeltaTable("s3://lake/w/outer/inner", storage_options=options).version() == 0


def test_name_is_free_although_a_writer_came_late(server: LakeServer, store: Store) -> None:
    """A checksum that comes after the table was dropped keeps no table from being made; other files do."""
    store.write(f"lake/w/late.db/stock/_delta_log/{3:020}.crc")
    store.write("lake/w/late.db/other/notes.csv")
    with server.client() as client:
        client.create_table("late", "stock", STOCK.schema)
        client.insert("late", "stock", STOCK)
        refused = told(lambda: client.create_table("late", "other", STOCK.schema))

    assert server.rows("late", "stock") == ROWS
    assert refused == (
        "the folder of table 'late.other' contains 'notes.csv', which does not belong to a table;"
        " move it away first"
    )


def test_second_server_is_told_of(server: LakeServer, store: Store, tmp_path: Path) -> None:
    """Delta asks for a single driver in S3: both servers say that there are two, and what to do."""
    with LakeServer(tmp_path, address="s3a://lake/w", env=store.environment) as second:
        second.await_log("another server uses this warehouse")
        server.await_log("another server uses this warehouse")

        assert "stop all servers but one" in second.text


def told(run: Callable[[], object]) -> str:
    """Return the text of a refusal."""
    with pytest.raises(PreconditionError) as caught:
        run()
    return str(caught.value)
