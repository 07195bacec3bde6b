"""What a transaction has staged for one table: uncommitted files, and what it sees with them."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.errors import NotFoundError, PreconditionError
from sparkport.spark.commit.conflicts import FinalConflictError
from sparkport.spark.commit.idempotency import application
from sparkport.spark.commit.row_group_writer import RowGroupWriter
from sparkport.spark.commit.staging import Stage, new_folder
from sparkport.spark.delta.commit.log_writer import can_commit
from sparkport.spark.delta.features import Work
from sparkport.spark.delta.files import data_files
from sparkport.spark.delta.files.data_files import NewFile
from sparkport.spark.delta.log.actions import DataFile, Metadata, decode_file
from sparkport.spark.delta.log.snapshots import DeltaSnapshot, total_rows
from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.model.constraints import all_constraints
from sparkport.spark.read.snapshot import Located, TableSnapshot
from sparkport.spark.row_ids.ids import NO_IDS, Ids
from sparkport.spark.storage.filesystem import is_local, storage_of
from sparkport.spark.storage.temp_folders import hold
from sparkport.spark.versions import TableVersions
from sparkport.spark.warehouse.snapshots import StagedChanges
from sparkport.spark.warehouse.transaction_view import without_rows
from sparkport.spark.write import deletion_vector_update
from sparkport.spark.write.staged_checks import check_new_files
from sparkport.toolkit.repeats import StatementKey


@dataclass(frozen=True, slots=True, eq=False)
class StagedWrite:
    """One statement: its new files, the ids of the rows that it has changed or removed, and its outcome."""

    operation: str
    files: tuple[DataFile, ...]
    changed: Ids
    affected: int
    key: StatementKey | None


class StagedTable(StagedChanges):
    """The statements of one transaction on one table, over the version that the transaction sees.

    Their files lie in a folder of their own, outside of the table, until the transaction is committed; should
    the server die the next one removes it.
    """

    def __init__(self, call: Call, table: TableVersions, base: TableSnapshot) -> None:
        self.table = table
        self.base = base
        self.root = table.root
        self.folder = new_folder(table.engine.staging)
        self.writes: list[StagedWrite] = []
        self.is_exact = False
        """Whether rows that others have added since are a conflict too."""
        self._has_folder = False
        self._states: list[DeltaSnapshot] = [base.state]
        self._held = Reservation(call.resources.staged.of(call.principal))

    @property
    def table_id(self) -> str:
        """What tells the table from others that were, or will be, in its folder."""
        return self.base.metadata.table_id

    @property
    def count(self) -> int:
        """How many statements there are."""
        return len(self.writes)

    def state(self, count: int | None = None) -> DeltaSnapshot:
        """Return what the transaction sees now, or saw after so many statements."""
        return self._states[-1 if count is None else count]

    def view(self) -> TableSnapshot:
        """Return what the transaction sees now, bound to what reads it."""
        return replace(self.base, state=self.state())

    def outcome(self, key: StatementKey | None) -> int | None:
        """Return how many rows the statement with a key has changed, None if there is none."""
        for write in self.writes:
            if key is not None and write.key is not None and write.key.name == key.name:
                return key.matched(write.key.outcome(write.affected))
        return None

    def write_rows(self, rows: pa.Table) -> list[NewFile]:
        """Write stored rows to new files."""
        return data_files.write_files(self.made_folder(), self.base.metadata, rows)

    def take_files(self, stage: Stage) -> list[NewFile]:
        """Take over the rows of a closed stage as files."""
        if stage.is_small:
            return self.write_rows(stage.read())
        if stage.layout is not None:
            return list(stage.publish(Path(self.made_folder())))
        files: list[NewFile] = []
        groups = RowGroupWriter(lambda rows: files.extend(self.write_rows(rows)))
        try:
            for batch in stage.batches():
                groups.add(batch)
            groups.finish()
        finally:
            groups.stop()
        return files

    def add(
        self,
        call: Call,
        operation: str,
        new_files: Sequence[NewFile],
        located: Located | None,
        affected: int,
        key: StatementKey | None,
    ) -> None:
        """Add a statement to what the transaction sees. Raises ConstraintViolationError."""
        added = tuple(decode_file(json.loads(file.action)["add"], self.folder) for file in new_files)
        check_new_files(call, self.table.engine, self.base, added)
        state = self.state()
        files = list(state.files)
        changed = NO_IDS
        if located is not None:
            positions = {file.path: places for file, places in located.files()}
            files = [without_rows(file, self.base.log.root, positions.get(file.path)) for file in files]
            changed = located.rows.column(self.base.columns[-1].stored.name).to_numpy()
        kept = tuple(file for file in (*files, *added) if file.row_count != 0)
        self._held.add(4 * changed.nbytes)
        self.writes.append(StagedWrite(operation, added, changed, affected, key))
        self._states.append(
            replace(state, files=kept, row_count=total_rows(kept), own_writes=len(self.writes))
        )

    @contextlib.contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Forget the statements of the block if it fails; the caller keeps those of others out."""
        count = self.count
        try:
            yield
        except BaseException:
            del self.writes[count:], self._states[count + 1 :]
            raise

    def own_files(self) -> list[DataFile]:
        """Return the new files with what is left of their rows."""
        return [file for file in self.state().files if file.path.startswith(f"{self.folder}/")]

    def without_repeated(self, newest: DeltaSnapshot) -> StagedTable:
        """Return what is left without statements that were executed outside of the transaction meanwhile.

        Raises FinalConflictError if other statements of the transaction build on them.
        """
        repeated = [it for it in self.writes if it.key and application(it.key.name) in newest.transactions]
        if not repeated:
            return self
        own = {file.path: file.vector_id for file in self.own_files()}
        for write in repeated:
            if len(write.changed) or any(own.get(file.path, "") is not None for file in write.files):
                raise FinalConflictError(self.table.name, "another call ran a statement of this transaction")
        gone = {file.path for write in repeated for file in write.files}
        state = self.state()
        rest = copy.copy(self)
        rest.writes = [write for write in self.writes if write not in repeated]
        rest._states = [replace(state, files=tuple(file for file in state.files if file.path not in gone))]  # noqa: SLF001
        return rest

    def discard(self) -> None:
        """Remove the files."""
        self._held.release()
        if self._has_folder:
            with contextlib.suppress(OSError):  # removed as an orphan later
                storage_of(self.folder).remove(self.folder)

    def made_folder(self) -> str:
        """Return the folder of the files, which exists then."""
        hold(self.table.engine.staging)
        self._has_folder = True
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        return self.folder


def staged_table(call: Call, table: TableVersions, operation: str) -> StagedTable | None:
    """Return what the call's transaction stages for a table; None if its statements are not staged.

    Raises PreconditionError for a table whose commits the server cannot write itself, and what
    `check_same_columns` does.
    """
    transactions = table.engine.transactions
    if not transactions.is_staged(call):
        return None
    seen = table.seen(call)
    assert seen is not None
    found = transactions.staged(
        call, table.schema, table.name, lambda: StagedTable(call, table, table.at_version(seen.version))
    )
    assert isinstance(found, StagedTable)
    if found.table_id != table.table_id or found.root != table.root:
        raise NotFoundError("table", str(table))
    _check_supported(table, found.base, operation)
    check_same_columns(table, found.base.metadata, table.header().metadata)
    return found


def check_same_columns(table: TableVersions, staged: Metadata, newest: Metadata) -> None:
    """Raise FinalConflictError if a table has other columns or constraints than rows were staged for."""
    is_same = [field for field in staged.fields if ROWID_KEY not in field.metadata] == [
        field for field in newest.fields if ROWID_KEY not in field.metadata
    ]
    if not is_same or all_constraints(staged) != all_constraints(newest):
        raise FinalConflictError(table.name, "its columns were altered meanwhile")
    if staged.fields != newest.fields:
        raise FinalConflictError(table.name, "it was given row ids meanwhile")


def _check_supported(table: TableVersions, base: TableSnapshot, operation: str) -> None:
    """Raise PreconditionError for a table to which the server cannot write within a transaction."""
    reason = reason_against(table, base, operation)
    if reason is not None:
        raise PreconditionError(
            f"{operation} in a transaction is not possible on table '{table.name}': {reason}; run it"
            " outside of a transaction"
        )


def reason_against(table: TableVersions, base: TableSnapshot, operation: str) -> str | None:
    """Return why the server cannot write to a table within a transaction, None if it can."""
    protocol, metadata = base.state.protocol, base.metadata
    if not is_local(table.root) or not is_local(table.engine.staging):
        return "it is not on a local disk"
    if not table.engine.capabilities.delta_transactions:
        return "Spark runs on another machine"
    if not can_commit(table.root, protocol, metadata, work=Work.APPEND_CHECKED):
        return "it has a feature or property for which Spark has to write the commit"
    has_vectors = deletion_vector_update.has_vectors(protocol, metadata)
    reason = data_files.reason_against_writing(protocol, metadata, work=Work.APPEND_CHECKED)
    # A DELETE without deletion vectors writes files again.
    if reason is not None and not (operation == "DELETE" and has_vectors):
        return reason
    if operation != "INSERT" and has_vectors and not deletion_vector_update.is_possible(protocol, metadata):
        return "Delta has more to do for each row that is changed"
    if base.sql_reason is not None:
        return f"only Spark SQL can read it ({base.sql_reason})"
    return None
