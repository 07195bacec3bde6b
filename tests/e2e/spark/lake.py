"""A server of the Spark engine in a process of its own, and tables for it that need no Spark to make."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from sparkport.client import Client, connect
from sparkport.protocol import flight_pb2 as pb
from tests.clusters import FAST_START
from tests.e2e.serving import Process
from tests.flight_client import Flight, path_descriptor, table_of

TOKEN = "lake-token"
PATIENCE = 100.0
SMALL = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": FAST_START}

IN_TASKS = ("--local-scan-bytes", "0")
"""Arguments of a server that leaves every scan to Spark."""

_SLOW_FILES = 400
_SLOW_ROWS = 8_000_000


class LakeServer(Process):
    """`sparkport serve WAREHOUSE`, with a folder of its own for whatever it drops while it runs.

    The warehouse is in that folder too, unless it has an address elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        address: str | None = None,
        env: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.warehouse = folder / "warehouse"
        self.temporary = folder / "tmp"
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.temporary.mkdir(exist_ok=True)
        # Entries of --conf would take the place of all those in a file, and a remote driver runs already.
        has_own = "--config" in arguments or "--remote" in arguments
        flags = [] if has_own else [f"--conf={key}={value}" for key, value in SMALL.items()]
        super().__init__(
            *("serve", address or str(self.warehouse), "--port", "0", "--token", TOKEN, *flags, *arguments),
            cwd=folder,
            env={"SPARKPORT_ENGINE": "spark", "TMPDIR": str(self.temporary), **(env or {})},
            wrapper=wrapper,
        )

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Call the server in the JSON dialect."""
        with connect(self.location, token=TOKEN, timeout=PATIENCE) as client:
            yield client

    @contextmanager
    def flight(self) -> Iterator[Flight]:
        """Call the server as DuckDB's Airport extension does."""
        with Flight(self.location, TOKEN) as flight:
            yield flight

    def rows(self, schema: str, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table, without their ids and sorted."""
        with self.client() as client:
            found = client.scan(schema, table).read_all()
        return in_order(found)

    def tables(self) -> list[str]:
        """Return the names of all tables."""
        with self.client() as client:
            return sorted(f"{path.schema}.{path.table}" for path in client.tables())

    def insert(self, schema: str, table: str, rows: pa.Table) -> int:
        """Add rows and return how many the server counted."""
        with self.client() as client:
            return client.insert(schema, table, rows).affected_rows

    def spools(self) -> list[Path]:
        """Return the files that tasks have left for the server."""
        return [
            Path(folder, file)
            for folder, _, files in os.walk(self.temporary)  # which takes it that folders go away
            if "sparkport-spool-" in folder
            for file in files
        ]

    def java(self) -> list[int]:
        """Return the Java processes below the server."""
        return [pid for pid in descendants(self.process.pid) if "java" in command(pid).split("\0", 1)[0]]

    def await_java(self) -> int:
        """Wait for the driver's process."""
        wait_until(lambda: bool(self.java()), "there is no Java process")
        return self.java()[0]

    def await_log(self, text: str, count: int = 1) -> None:
        """Wait until the server has logged a text `count` times."""
        wait_until(lambda: self.text.count(text) >= count, f"{text!r} was not logged")


class SlowScan:
    """A scan of a slow table that is under way: its rows come much later than any test waits."""

    def __init__(self, flight: Flight, schema: str, table: str) -> None:
        address = path_descriptor("lakehouse", schema, table)
        (ticket,) = flight.scan(address, [0], filters=equals("b" * 200))
        request = pb.Ticket(ticket=ticket).SerializeToString()
        self.call = flight.stream("DoGet", request, timeout=PATIENCE)
        self.schema = next(self.call)

    def rest(self) -> list[bytes]:
        """Wait for what else comes."""
        return list(self.call)

    def cancel(self) -> None:
        """Go away."""
        self.call.cancel()


def local_table(root: Path, rows: pa.Table, schema_mode: Literal["merge"] | None = None) -> None:
    """Append rows to a Delta table without Spark, as another program would."""
    write_deltalake(str(root), rows, mode="append", schema_mode=schema_mode)


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows without their ids, sorted."""
    found: list[dict[str, Any]] = rows.drop_columns(
        [n for n in rows.column_names if n == "rowid"]
    ).to_pylist()
    return sorted(found, key=repr)


def filtered(flight: Flight, schema: str, table: str, columns: int, value: str) -> pa.Table:
    """Return the first columns of the rows whose first column is `value`, as far as the server filters."""
    address = path_descriptor("lakehouse", schema, table)
    tickets = flight.scan(address, range(columns), filters=equals(value))
    return pa.concat_tables([table_of(flight.get(ticket)) for ticket in tickets])


def equals(value: str) -> str:
    """Return the filter `first column = value` as the Airport extension writes it."""
    kind = {"id": "VARCHAR", "type_info": None}
    column = {
        "expression_class": "BOUND_COLUMN_REF",
        "type": "BOUND_COLUMN_REF",
        "return_type": kind,
        "binding": {"table_index": 0, "column_index": 0},
        "depth": 0,
    }
    constant = {"type": kind, "is_null": False, "value": value}
    comparison = {
        "expression_class": "BOUND_COMPARISON",
        "type": "COMPARE_EQUAL",
        "left": column,
        "right": {"expression_class": "BOUND_CONSTANT", "type": "VALUE_CONSTANT", "value": constant},
    }
    return json.dumps({"filters": [comparison], "column_binding_names_by_index": ["text"]})


def slow_table(root: Path) -> None:
    """Write a small Delta table that takes minutes to read: few bytes that are very many rows.

    All of it is work of one Spark task.
    """
    root.mkdir(parents=True)
    words = pa.array(["a" * 200, "c" * 200])
    indices = pa.repeat(pa.scalar(0, pa.int32()), _SLOW_ROWS - 1).cast(pa.int32())
    rows = pa.table(
        {"text": pa.chunked_array([pa.DictionaryArray.from_arrays(indices, words), _last(words)])}
    )
    # Without Arrow's own schema the words are read one by one, and not as a dictionary.
    pq.write_table(rows, root / "0.parquet", row_group_size=_SLOW_ROWS, store_schema=False)
    size = (root / "0.parquet").stat().st_size
    for number in range(1, _SLOW_FILES):
        os.link(root / "0.parquet", root / f"{number}.parquet")
    handwritten_log(root, [(f"{number}.parquet", size) for number in range(_SLOW_FILES)])


def large_looking_table(root: Path) -> None:
    """Write four small files that the log says are large, so that a scan has several endpoints."""
    root.mkdir(parents=True)
    files = []
    for number, text in enumerate(("a", "b", "c", "d")):
        pq.write_table(pa.table({"text": [text * 3]}), root / f"{number}.parquet", store_schema=False)
        files.append((f"{number}.parquet", 200 << 20))
    handwritten_log(root, files)


def handwritten_log(root: Path, files: Sequence[tuple[str, int]]) -> None:
    """Write the log of a table with the column `text`: its files by name and size."""
    adds: list[dict[str, object]] = [
        {
            "add": {
                "path": name,
                "partitionValues": {},
                "size": size,
                "modificationTime": 1,
                "dataChange": True,
            }
        }
        for name, size in files
    ]
    fields = [{"name": "text", "type": "string", "nullable": True, "metadata": {}}]
    metadata = {
        "id": "5f1b4ad2-6a3d-4b0e-9a53-a0d44d36b8a2",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
    }
    actions: list[dict[str, object]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        *adds,
    ]
    log = root / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _last(words: pa.Array) -> pa.Array:
    """Return a row that keeps the file's statistics from ruling the filter out."""
    return pa.DictionaryArray.from_arrays(pa.array([1], pa.int32()), words)


def descendants(process: int) -> list[int]:
    """Return the processes below a process."""
    found = []
    for thread in _names(Path(f"/proc/{process}/task")):
        for child in _read(Path(f"/proc/{process}/task/{thread}/children")).split():
            found += [int(child), *descendants(int(child))]
    return found


def command(process: int) -> str:
    """Return the command line of a process, or nothing if it is gone."""
    return _read(Path(f"/proc/{process}/cmdline"))


def is_gone(process: int) -> bool:
    """Say whether a process has ended."""
    state = _read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    return not state or state[0] == "Z"


def await_gone(processes: list[int]) -> None:
    """Wait until all processes have ended."""
    wait_until(lambda: all(map(is_gone, processes)), "processes are left", seconds=20)


def kill(process: int) -> None:
    """Kill a process as the kernel does when memory runs out."""
    os.kill(process, signal.SIGKILL)


def wait_until(holds: Callable[[], bool], otherwise: str, seconds: float = PATIENCE) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  (names, not paths)
    except (FileNotFoundError, ProcessLookupError):
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
