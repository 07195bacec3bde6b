"""What the tables of a warehouse share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from sparkport.spark.commit.group_commit import CommitQueue
from sparkport.spark.commit.journal import Journal
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.read.mode import DirectReadMode, ReadMode
from sparkport.spark.read.snapshot import Reader
from sparkport.spark.read.splits import SplitSizes
from sparkport.spark.row_ids.allocator import RowIdAllocator
from sparkport.spark.row_ids.provisional import greatest_id
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.jobs import Jobs
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.warehouse.listing import Warehouse
from sparkport.spark.warehouse.snapshots import SparkTransactions
from sparkport.spark.warehouse.trash import Trash
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_TABLES_KEPT = 10_000


class Engine:
    """A warehouse and the Spark that reads it."""

    def __init__(
        self,
        host: SparkHost,
        *,
        warehouse: str | None = None,
        sizes: SplitSizes | None = None,
        read_mode: ReadMode = ReadMode.AUTO,
        direct_reads: DirectReadMode = DirectReadMode.AUTO,
        adopts: bool = False,
        transaction_idle_seconds: float = 3600.0,
        trash_hours: float = 24.0,
    ) -> None:
        self.host = host
        self.capabilities = host.capabilities
        self.direct_reads = direct_reads
        self.adopts = adopts
        self.jobs = Jobs(host)
        self.reader = Reader(self.jobs, sizes or SplitSizes(), read_mode)
        self.warehouse = Warehouse(warehouse or host.settings.warehouse)
        self.trash = Trash(self.warehouse.root, trash_hours)
        root = self.warehouse.root
        self.journal = Journal(root, self.log) if is_local(root) else None
        self.transactions = SparkTransactions(
            self.warehouse, self.journal, idle_seconds=transaction_idle_seconds
        )
        # By table id: the files whose rows all have ids.
        self.numbered_files: BoundedCache[str, frozenset[str]] = BoundedCache(_MAX_TABLES_KEPT)
        # By folder and version: reasons against direct reads that are in the log.
        self.logged_reasons: BoundedCache[tuple[str, int, str], bool] = BoundedCache(_MAX_TABLES_KEPT)
        self._logs: dict[str, DeltaLog] = {}
        self._row_ids: dict[str, RowIdAllocator] = {}
        # By folder and id, for as long as a statement has them: a table may be dropped and brought back.
        self._commits: WeakValueDictionary[tuple[str, str], CommitQueue] = WeakValueDictionary()
        self._recent_commits: dict[str, CommitQueue] = {}
        self._lock = threading.Lock()
        self._on_close: list[Callable[[], None]] = []

    def log(self, root: str) -> DeltaLog:
        """Return the log of a table; the same object at every call, so that what it has read is kept."""
        with self._lock:
            return self._logs.setdefault(root, DeltaLog(root))

    def row_ids(self, root: str, table_id: str) -> RowIdAllocator:
        """Return what hands out the row ids of a table: of this one, and not of one that was there before."""
        log = self.log(root)
        with self._lock:
            kept = self._row_ids.get(root)
            if kept is None or kept.table_id != table_id:
                kept = RowIdAllocator(root, table_id, lambda: greatest_id(log.snapshot()))
                self._row_ids[root] = kept
            return kept

    def commits(self, root: str, table_id: str, table: str) -> CommitQueue:
        """Return what orders the writes to a table: to this one, and not to one that was there before.

        All statements on it that run at the same time get the same object.
        """
        log, has_transactions = self.log(root), self.capabilities.delta_transactions
        with self._lock:
            kept = self._commits.get((root, table_id))
            if kept is None:
                kept = CommitQueue(
                    self.jobs,
                    table,
                    table_id,
                    log,
                    joins_keys=has_transactions,
                    commits_alone=has_transactions,
                    prepare=self.journal.await_complete if self.journal else lambda _: None,
                )
                self._commits[root, table_id] = kept
            self._recent_commits[root] = kept
            return kept

    def forget(self, root: str) -> None:
        """Let go of a table that was dropped."""
        with self._lock:
            self._logs.pop(root, None)
            self._row_ids.pop(root, None)
            self._recent_commits.pop(root, None)

    @property
    def staging(self) -> str:
        """Where rows are kept until they are committed."""
        return f"{self.warehouse.root}/_sparkport/staging"

    def on_close(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the engine stops its work."""
        self._on_close.append(callback)

    def stop_work(self) -> None:
        """Stop all scans, and what runs beside Spark; another engine may go on with it."""
        for callback in self._on_close:
            callback()
        self.jobs.close()

    def close(self) -> None:
        """Stop all scans and Spark."""
        self.stop_work()
        self.host.stop()
