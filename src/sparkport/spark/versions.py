"""The versions of a Delta table, as each call sees them."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import pyarrow as pa
import structlog

from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.scan import TimePoint, TimeUnit
from sparkport.errors import NotFoundError
from sparkport.spark.commit.checkpoints import Checkpointing
from sparkport.spark.commit.conflicts import Basis, FinalConflictError
from sparkport.spark.commit.read_write_lock import ReadWriteLock
from sparkport.spark.delta.commit.durability import Durability
from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot, TableHeader
from sparkport.spark.engine import Engine
from sparkport.spark.model.arrow_metadata import arrow_metadata
from sparkport.spark.model.columns import TableColumn, table_columns
from sparkport.spark.read import direct_files
from sparkport.spark.read.mode import DirectReadMode
from sparkport.spark.read.snapshot import Located, TableSnapshot
from sparkport.spark.row_ids.eligibility import is_adoptable
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.warehouse.listing import TableEntry
from sparkport.spark.warehouse.snapshots import OwnWrite, TableView
from sparkport.spark.warehouse.transaction_view import transaction_snapshot, view_conflict
from sparkport.toolkit.local_clients import shares_files

_log = structlog.get_logger("sparkport.spark")

_SNAPSHOT_VERSION = re.compile("[0-9]{1,20}")
_PRIVATE_VERSION = re.compile(r"(?P<version>[0-9]{1,20})\+(?P<own>[0-9]{1,9})@(?P<transaction>.+)")
_MAX_COMMITS_COMPARED = 100


class TableVersions:
    """One table of a warehouse: which of its versions a call reads, and what a commit to it leads to.

    Nothing of it is kept but what its log has said: others may write to it at any time.
    """

    def __init__(self, entry: TableEntry, engine: Engine) -> None:
        self.engine = engine
        self.lock = (
            ReadWriteLock()
        )  # whoever commits rows shares it with others, whoever alters holds it alone
        self._checkpoints = Checkpointing(engine.jobs, self.lock)
        self._durability = Durability()
        self._entry = entry
        self._log = engine.log(entry.root)
        self._columns: tuple[Metadata, tuple[TableColumn, ...], pa.Schema] | None = None

    @property
    def name(self) -> str:
        """The table's name."""
        return self._entry.name

    @property
    def schema(self) -> str:
        """The name of the table's schema."""
        return self._entry.schema

    @property
    def root(self) -> str:
        """The table's folder."""
        return self._entry.root

    @property
    def log(self) -> DeltaLog:
        """The table's log."""
        return self._log

    @property
    def table_id(self) -> str:
        """What tells the table from others that were, or will be, in its folder."""
        return self._log.header().metadata.table_id

    def moved(self, name: str, root: str) -> None:
        """Take another name and folder."""
        self._entry = replace(self._entry, name=name, root=root)
        self._log = self.engine.log(root)

    def header(self, version: int | None = None) -> TableHeader:
        """Return what a version, or the newest, is without its files."""
        return self._log.header(version)

    def arrow_schema(self, header: TableHeader | DeltaSnapshot) -> pa.Schema:
        """Return the columns of a version as clients see them."""
        return self._described(header)[2]

    def newest(self) -> TableSnapshot:
        """Return the table as it is now."""
        return self._bound(self._log.snapshot())

    def at_version(self, version: int) -> TableSnapshot:
        """Return a version."""
        return self._bound(self._log.snapshot(version))

    def at(self, call: Call, time_point: TimePoint | None) -> TableSnapshot:
        """Return what a call sees at a time, or now: in its transaction, if it has one."""
        return self._bound(self._state(call, time_point))

    def for_scan(self, call: Call, time_point: TimePoint | None, snapshot: TableSnapshot) -> TableSnapshot:
        """Return what a scan of a snapshot reads: with row ids, if its statement has just added them."""
        if time_point is None or time_point.unit is not TimeUnit.SNAPSHOT:
            return snapshot
        version = self.engine.transactions.scanned_version(call, self.schema, self.name, snapshot.version)
        if version == snapshot.version or snapshot.state.own_writes:
            return snapshot
        newer = self.at_version(version)
        # Clients were told the columns when the scan was planned.
        return newer if newer.arrow_schema.equals(snapshot.arrow_schema) else snapshot

    def seen(self, call: Call) -> TableSnapshot | None:
        """Return what the call's transaction sees, None if there is none: the newest version then."""
        view = self.view(call)
        return None if view is None else self._bound(self._seen(call, view))

    def view(self, call: Call) -> TableView | None:
        """Return which version the call's transaction sees, None without one."""
        return self.engine.transactions.view(call, self.schema, self.name, self._log)

    def pin(self, call: Call, snapshot: TableSnapshot) -> TimePoint:
        """Return a name for a snapshot that stays, whatever is written."""
        own = snapshot.state.own_writes
        private = f"+{own}@{call.transaction_id}" if own else ""
        return TimePoint(TimeUnit.SNAPSHOT, f"{snapshot.metadata.table_id}:{snapshot.version}{private}")

    def bases(self, call: Call) -> list[Basis]:
        """Return what the rows of the call's statement were read from: that must be as it was then."""
        view = self.view(call)
        if view is not None:
            return [view.basis]
        if call.if_version is None:
            return []
        newest = self._log.header()
        owner, _, version = call.if_version.rpartition(":")
        is_known = owner == newest.metadata.table_id and _SNAPSHOT_VERSION.fullmatch(version)
        if not is_known or int(version) > newest.version:
            raise FinalConflictError(str(self), "the rows were read from another table or version")
        return [Basis(int(version))]

    def is_changed_between(self, start: int, end: int) -> bool:
        """Tell whether rows of a version may have been changed or removed up to a later one."""
        between = range(start + 1, end + 1)
        return len(between) > _MAX_COMMITS_COMPARED or any(map(self._log.removes_rows, between))

    def version_after(self, call: Call, version: int | None) -> str | None:
        """Return the snapshot that a client may take its rows to be of after a commit of its own."""
        if call.if_version is None or version is None:
            return call.if_version
        owner, _, read = call.if_version.rpartition(":")
        if not read.isdecimal() or self.is_changed_between(int(read), version - 1):
            return call.if_version
        return f"{owner}:{version}"

    def begin_write(self) -> None:
        """Note what is on the disk before a statement commits."""
        self._durability.begin(self._log)

    def wrote(self, call: Call, write: OwnWrite | None) -> None:
        """Make a commit durable and visible to the call's transaction; None if its version is unknown."""
        self.make_durable()
        header = self._log.header()
        own = write or OwnWrite(header.version, None, is_certain=False)
        self.engine.transactions.record_write(call, self.schema, self.name, header, own)

    def make_durable(self) -> None:
        """Return when what was committed is on the disk; begin a checkpoint if one is due."""
        self._durability.reach(self._log)
        self._checkpoints.write_if_due(str(self), self._log)

    def adopts(self, header: TableHeader | DeltaSnapshot) -> bool:
        """Tell whether a table that has no row ids gets them when they are needed."""
        if not self.engine.adopts or not self.engine.capabilities.delta_transactions:
            return False
        return is_adoptable(header.protocol, header.metadata)

    def direct_reads_refusal(self, call: Call, header: TableHeader | DeltaSnapshot) -> str | None:
        """Return why the client may not read the files by itself, None if it may."""
        mode = self.engine.direct_reads
        match header.metadata.configuration.get(direct_files.PROPERTY, "").lower():
            case "true":
                mode = DirectReadMode.ALWAYS
            case "false":
                mode = DirectReadMode.NEVER
        if mode is DirectReadMode.NEVER:
            return "direct reads are off"
        if mode is DirectReadMode.AUTO and not is_local(self.root):
            return "the table is in an object store"
        if mode is DirectReadMode.AUTO and not shares_files(call.peer):
            return "the client is not a DuckDB of the server's user on the server's machine"
        return None

    def log_not_direct(self, version: int, reason: str) -> None:
        """Log, once for each version, why DuckDB does not read some files by itself."""
        key = self.root, version, reason
        if self.engine.logged_reasons.get(key) is None:
            self.engine.logged_reasons.put(key, True)
            _log.info("files are not read directly", table=str(self), version=version, reason=reason)

    def _state(self, call: Call, time_point: TimePoint | None) -> DeltaSnapshot:
        if time_point is None:
            view = self.view(call)
            if view is not None:
                return self._seen(call, view)
            if self.engine.journal is not None:
                self.engine.journal.await_published(call, self.root)
            return self._log.snapshot()
        match time_point.unit:
            case TimeUnit.VERSION:
                return self._log.snapshot(time_point.version())
            case TimeUnit.TIMESTAMP:
                moment = time_point.moment()
                return self._log.snapshot(self._log.version_at(int(moment.timestamp() * 1000)))
            case TimeUnit.SNAPSHOT:
                state = self._pinned(call, time_point.value)
                if state is None:
                    raise NotFoundError("snapshot", time_point.value)
                return state

    def _pinned(self, call: Call, pin: str) -> DeltaSnapshot | None:
        """Return the snapshot with a pin: a version, or what a transaction sees."""
        owner, _, version = pin.partition(":")
        if _SNAPSHOT_VERSION.fullmatch(version):
            state = self._log.snapshot(int(version))
            return state if state.metadata.table_id == owner else None
        private = _PRIVATE_VERSION.fullmatch(version)
        if private is None:
            return None
        transactions = self.engine.transactions
        staged = transactions.staged_state(call, private["transaction"], owner, int(private["own"]))
        if staged is not None:
            return staged if staged.version == int(private["version"]) else None
        view = transactions.private_view(private["transaction"], self.schema, self.name)
        if view is None or view.table_id != owner or view.version != int(private["version"]):
            return None
        own = view.own[: int(private["own"])]
        return self._seen(call, replace(view, own=own), private["transaction"])

    def _seen(self, call: Call, view: TableView, transaction_id: str | None = None) -> DeltaSnapshot:
        """Return what a transaction sees: that of the call, unless another is named."""
        if view.staged is not None:
            return view.staged
        if not view.own:
            return self._log.snapshot(view.version)
        locate = functools.partial(self._locate_ids, call)
        make = functools.partial(transaction_snapshot, str(self), self._log, locate=locate)
        owner = transaction_id or call.transaction_id or ""
        state = self.engine.transactions.snapshot(owner, view, make)
        if state.own_writes and self._bound(state).sql_reason is not None:
            raise view_conflict(str(self))  # Spark SQL reads whole versions
        return state

    def _locate_ids(self, call: Call, state: DeltaSnapshot, ids: Ids) -> Located | None:
        if any(file.physical_rows is None for file in state.files):
            return None
        held = Reservation(call.resources.rows)
        try:
            return self._bound(state).locate(call, ids, held, max_bytes=0)
        finally:
            held.release()

    def _bound(self, state: DeltaSnapshot) -> TableSnapshot:
        _, columns, arrow_schema = self._described(state)
        return TableSnapshot(str(self), self._log, state, columns, arrow_schema, self.engine.reader)

    def _described(
        self, header: TableHeader | DeltaSnapshot
    ) -> tuple[Metadata, tuple[TableColumn, ...], pa.Schema]:
        """Return the columns of a version in both forms: the same objects until they change."""
        kept = self._columns
        if kept is None or kept[0] is not header.metadata:
            columns = table_columns(header.metadata, shows_ids=self.adopts(header))
            arrow_schema = pa.schema([column.exact for column in columns], arrow_metadata(header.metadata))
            self._columns = kept = (header.metadata, columns, arrow_schema)
        return kept

    def __str__(self) -> str:
        return f"{self._entry.schema}.{self._entry.name}"
