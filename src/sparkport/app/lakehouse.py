"""The Spark engine as a server runs it: there at once, with Spark coming up behind it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sparkport.app.lakehouse_measures import watch
from sparkport.app.sample import load_sample
from sparkport.app.shared_spark import lease_host
from sparkport.catalog.call import Call
from sparkport.catalog.tables import Catalog
from sparkport.errors import ConfigError, SparkportError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.commit.staging import new_folder, remove_orphaned_stages
from sparkport.spark.ddl.create import move_folder
from sparkport.spark.engine import Engine
from sparkport.spark.external.catalog import SessionCatalog, catalog_names
from sparkport.spark.functions.catalog_functions import FunctionFlags
from sparkport.spark.read.mode import DEFAULT_LOCAL_SCAN_BYTES, DirectReadMode, ReadMode
from sparkport.spark.read.splits import SplitSizes
from sparkport.spark.read.spool import remove_orphaned_spools
from sparkport.spark.session.class_archive_builder import train_in_background
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.storage.temp_folders import hold
from sparkport.spark.warehouse.upkeep import Upkeep

_log = structlog.get_logger("sparkport.app")

_WARM_SECONDS = 300.0
_SETTLED_SECONDS = 120.0
_MAX_TRASH_HOURS = 24.0 * 366 * 100


class Lakehouse:
    """A warehouse of Delta tables and the Spark that reads and writes it.

    >>> Server(Lakehouse("./lakehouse")).serve()

    The catalog answers from the tables' logs at once; what needs Spark waits for it. A process has
    one Spark, which all its lakehouses share: `master` (default `local[*]`), `remote` and `conf`
    are those of the first, and a later one that asks for something else is a ConfigError.

    `read_mode` is "auto" or "sql"; a scan of at most `local_scan_bytes` of Parquet needs no task of
    Spark's; `direct_reads` ("auto", "always" or "never") says where DuckDB reads the files itself.
    `adopt` gives row ids to tables of others at their first UPDATE or DELETE. `functions` adds schema
    `sparkport` with functions of tables, `allow_query` the function `query`, whose statements may take
    `query_timeout` seconds. `transaction_idle` is in seconds; dropped tables can be brought back for
    `trash_hours`. `sample` fills an empty warehouse in a local folder with a few tables.
    """

    def __init__(
        self,
        warehouse: str | os.PathLike[str],
        *,
        master: str | None = None,
        remote: str | None = None,
        conf: Mapping[str, str] | None = None,
        read_mode: ReadMode | str = ReadMode.AUTO,
        local_scan_bytes: int = DEFAULT_LOCAL_SCAN_BYTES,
        direct_reads: DirectReadMode | str = DirectReadMode.AUTO,
        adopt: bool = True,
        transaction_idle: float = 3600.0,
        sample: bool = False,
        functions: bool = True,
        allow_query: bool = True,
        query_timeout: float = 600.0,
        trash_hours: float = 24.0,
    ) -> None:
        folder = os.fspath(warehouse)
        if not 0 <= trash_hours <= _MAX_TRASH_HOURS:
            raise ConfigError(f"trash_hours is between 0 and {_MAX_TRASH_HOURS:.0f}, not {trash_hours}")
        if read_mode not in list(ReadMode):
            raise ConfigError(f"read_mode is 'auto' or 'sql', not {read_mode!r}")
        if direct_reads not in list(DirectReadMode):
            raise ConfigError(f"direct_reads is 'auto', 'always' or 'never', not {direct_reads!r}")
        if local_scan_bytes < 0:
            raise ConfigError(f"local_scan_bytes is at least 0, not {local_scan_bytes}")
        if sample and not is_local(folder):
            raise ConfigError("the sample needs a warehouse in a local folder")
        self._bar = _StartBar()
        self._lease = lease_host(folder, master, remote, conf, progress=self._bar.fetching)
        if is_local(folder):
            try:
                _make_folder(folder)
            except (ConfigError, OSError):
                self._lease.release()
                raise
        self._host = self._lease.host
        self._engine = Engine(
            self._host,
            warehouse=folder,
            sizes=SplitSizes(in_server=local_scan_bytes),
            read_mode=ReadMode(read_mode),
            direct_reads=DirectReadMode(direct_reads),
            adopts=adopt,
            transaction_idle_seconds=transaction_idle,
            trash_hours=trash_hours,
        )
        self._upkeep = Upkeep(self._engine.warehouse.root, self._engine.trash, self._recover)
        self.catalog = SparkCatalog(self._engine, FunctionFlags(functions, allow_query, query_timeout))
        self._others: dict[str, Catalog] = {}
        if self._lease.is_first:
            self._others = {
                other: SessionCatalog(other, self._engine) for other in catalog_names(self._host.settings)
            }
        self._sample = sample and self._is_empty()
        self._stopping = threading.Event()
        self._unwatch: Callable[[], None] = _nothing
        self.is_open = threading.Event()
        """Set once the tables that belong there are there: at once, but for a sample."""
        if not self._sample:
            self.is_open.set()

    def catalogs(self, name: str) -> dict[str, Catalog]:
        """Return what is served: the warehouse under `name`, and the catalogs in Spark's settings."""
        return {**self._others, name: self.catalog}

    def start(self) -> None:
        """Start Spark in the background.

        What a server that died has committed to some of the tables of a transaction is completed first.
        """
        self._host.start()
        self._unwatch = watch(self._engine)
        self._complete_transactions()
        self._upkeep.start()
        threading.Thread(target=self._complete_start, name="lakehouse-start", daemon=True).start()

    def stop(self) -> None:
        """Stop all scans, and Spark with its last lakehouse."""
        self._stopping.set()
        self._unwatch()
        self._unwatch = _nothing
        self._bar.close()
        self._engine.stop_work()
        self._lease.release()
        self._upkeep.stop()

    def _complete_transactions(self) -> None:
        try:
            if self._engine.journal is not None:
                self._engine.journal.recover()
        except (SparkportError, OSError) as error:
            _log.warning("the next transaction tries again", reason=f"{type(error).__name__}: {error}")

    def _recover(self) -> None:
        """Complete the transactions of servers that died, then remove what else they have left."""
        journal = self._engine.journal
        try:
            with journal.reading(Call()) if journal else contextlib.nullcontext():
                remove_orphaned_stages(self._engine.staging)
        except (SparkportError, OSError) as error:
            # What a transaction may still need stays; the upkeep tries again.
            _log.warning("files of dead servers are not removed", reason=f"{type(error).__name__}: {error}")

    def _complete_start(self) -> None:
        call = Call()
        remove_orphaned_spools()
        self._recover()
        try:
            with self._bar:
                if self._sample:
                    self._bar.show("loading the sample")
                    self._load_sample()  # which waits for Spark only where that writes the tables
                    self.is_open.set()
                    self._bar.show("starting Spark")
                self._host.session(call)
        except (SparkportError, OSError) as error:
            if not self._stopping.is_set():
                _log.error("the lakehouse is not complete", reason=str(error))
            return
        finally:
            self.is_open.set()
        # Not at once: whoever has just started a server wants to use it.
        if self._host.is_warm.wait(_WARM_SECONDS) and not self._stopping.wait(_SETTLED_SECONDS):
            train_in_background(self._host.settings)

    def _is_empty(self) -> bool:
        call = Call()
        return not any(schema.tables(call) for schema in self.catalog.schemas(call))

    def _load_sample(self) -> None:
        """Make the sample out of sight, and then show all of it at once."""
        _log.info("loading the sample")
        begun = time.monotonic()
        # A folder of its own: another server may be at the same work.
        hold(self._engine.staging)
        folder = Path(new_folder(self._engine.staging))
        try:
            load_sample(SparkCatalog(Engine(self._host, warehouse=str(folder))))
            for schema in folder.glob("*.db"):
                move_folder(schema, Path(self._engine.warehouse.root) / schema.name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        _log.info("sample loaded", seconds=round(time.monotonic() - begun, 1))


def _nothing() -> None:
    """Stop nothing: what has not started is not watched."""


def _make_folder(warehouse: str) -> None:
    try:
        Path(warehouse).mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ConfigError(f"the warehouse '{warehouse}' is a file, not a folder") from error
    except OSError as error:
        raise OSError(f"the warehouse '{warehouse}' cannot be created: {error.strerror}") from error


class _StartBar:
    """Shows on a terminal what is fetched and that Spark is starting."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not (console.is_terminal and sys.stderr.isatty()),
        )
        self._task = self._progress.add_task("starting Spark", total=None)
        self._fetch_begun: dict[str, float] = {}

    def fetching(self, name: str, done: int, total: int) -> None:
        """Show that a file is being fetched, and log when that begins and ends."""
        ready = done >= total
        self._progress.update(
            self._task,
            description="starting Spark" if ready else f"fetching {name}",
            completed=done,
            total=None if ready else total,
        )
        begun = self._fetch_begun.pop(name, None)
        if begun is None:
            self._fetch_begun[name] = time.monotonic()
            _log.info("fetching", file=name, done=done, total=total)
        else:
            _log.info("fetched", file=name, seconds=round(time.monotonic() - begun, 1))

    def show(self, what: str) -> None:
        """Show what is being done now."""
        self._progress.update(self._task, description=what)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._progress.stop()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
