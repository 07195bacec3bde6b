"""The journal of transactions over several tables: what is decided is done, also after a crash.

A transaction is decided when its record is on the disk. Then its files are moved to their tables, and its
Delta commits are made one by one. The process that does it holds the kernel's lock (`flock`) on the record.
A record that nobody holds is of a server that died: whoever finds it does what is left to do.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from sparkport.catalog.call import Call
from sparkport.errors import ConflictError, NotFoundError, SparkportError, UnavailableError
from sparkport.spark.commit.folder_lock import shared
from sparkport.spark.commit.transaction_commit import TableCommit, mark
from sparkport.spark.commit.undo import undo
from sparkport.spark.delta.commit.durability import write_through
from sparkport.spark.delta.commit.log_lock import holding_logs
from sparkport.spark.delta.commit.log_writer import NewCommit, write_commit
from sparkport.spark.delta.log.reader import DeltaLog

_log = structlog.get_logger("sparkport.spark")

_SUFFIX = ".json"
_UNWRITTEN = ".tmp"
_UNDOING = ".undo"  # of a record whose commits are taken back
_POLL_SECONDS = 0.002
_RECOVERY_SECONDS = 60.0


class UnfinishedTransactionError(UnavailableError):
    """A transaction is decided, but the disk did not take all of it yet."""

    def __init__(self) -> None:
        super().__init__(
            "the transaction is committed, but the server could not write all of it now; it is completed at"
            " the next transaction that begins, or when the server starts again"
        )


class _UnfinishedUndoError(UnavailableError):
    """A transaction is to be undone, but the disk did not take all of it yet."""

    def __init__(self) -> None:
        super().__init__(
            "another program came between the commits of the transaction, and the server could not undo it"
            " all now; it goes on at the next transaction that begins, or when the server starts again"
        )


class Journal:
    """The journal of a warehouse on a local disk, which all of its servers share."""

    def __init__(self, warehouse: str, log: Callable[[str], DeltaLog]) -> None:
        self._folder = Path(warehouse) / "_sparkport" / "transactions"
        self._log = log
        self._published = threading.Condition()
        # The folders of tables to which this server is making the commits of one transaction.
        self._publishing: frozenset[str] = frozenset()

    @contextlib.contextmanager
    def reading(self, call: Call) -> Iterator[None]:
        """Keep transactions from being published while a moment of all tables is taken.

        What a server that died has left half done is completed first. Whoever publishes holds the folder
        before there is a record: one that is found here is of a server that died, and perhaps another
        server is about to complete it.
        """
        while True:
            self.recover()
            with self._held(call, fcntl.LOCK_SH):
                if not self._records():
                    self._remove_unwritten()
                    yield
                    return
            call.check()
            time.sleep(_POLL_SECONDS)

    def await_complete(self, call: Call) -> None:
        """Return when nothing is left half done."""
        with self.reading(call):
            return

    def await_published(self, call: Call, root: str) -> None:
        """Return when this server makes no commits of a transaction to several tables, this one among them.

        Whoever waits so before each read never sees one of them as it is after the transaction, and then
        another one as it was before.
        """
        if root in self._publishing:
            with self._published:
                call.wait_for(self._published, lambda: root not in self._publishing)

    def publish(self, call: Call, commits: Sequence[TableCommit]) -> None:
        """Make all commits, in the moment of which no transaction begins.

        The caller holds the logs of the tables, which are at the versions that the commits are made for.
        Raises UnfinishedTransactionError if that is all but done. Whatever else is raised, nothing was
        committed; but for a ConflictError with a program that has changed the same files without heeding the
        locks: then it is logged which commits were made before.
        """
        if len(commits) == 1:
            # One commit is all or nothing by itself.
            with _withdrawn_on_failure(commits):
                self._write(commits[0], None)
            try:
                _flush_log(commits[0])
            except OSError as error:
                raise UnfinishedTransactionError from error
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for commit in commits:
            write_through(*(Path(commit.folder) / name for name in commit.files), Path(commit.folder))
        number = secrets.randbits(62)
        # The lock first: whoever removes what dead servers have left sees the record, or its server alive.
        with (
            self._held(call, fcntl.LOCK_EX),
            self._readers_waiting(commits),
            self._record(number, commits) as path,
        ):
            for commit in commits:
                self._make(commit, number)
            path.unlink()

    @contextlib.contextmanager
    def _record(self, number: int, commits: Sequence[TableCommit]) -> Iterator[Path]:
        """Write a record, which is on the disk when the block begins; it is held until the block ends.

        If the block raises before any commit was made the record is removed: then nothing was decided.
        """
        temporary, path = self._folder / f".{number}{_UNWRITTEN}", self._folder / f"{number}{_SUFFIX}"
        data = json.dumps({"number": number, "tables": [asdict(commit) for commit in commits]})
        opened = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX)
                with open(opened, "w", closefd=False) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(opened)
                temporary.rename(path)
                write_through(self._folder)
            except BaseException:
                _unlink(temporary, path)
                raise
            try:
                yield path
            except ConflictError as error:
                kept = self._undo(path, number, commits)
                raise _undone(error, kept) from error
            except Exception as error:
                if any(commit.version(number) is not None for commit in commits):
                    raise UnfinishedTransactionError from error
                _unlink(path, *_moved(commits))
                raise
        finally:
            os.close(opened)

    @contextlib.contextmanager
    def _readers_waiting(self, commits: Sequence[TableCommit]) -> Iterator[None]:
        """Let readers of the tables wait; the caller holds the folder alone, so nobody else publishes."""
        self._publishing = frozenset(commit.root for commit in commits)
        try:
            yield
        finally:
            with self._published:
                self._publishing = frozenset()
                self._published.notify_all()

    def recover(self) -> None:
        """Do what servers that died have decided and not done."""
        for path in self._orphans():
            with _adopted(path) as record:
                if record is not None:
                    self._complete(path, record)

    def _complete(self, path: Path, record: Mapping[str, Any]) -> None:
        """Make those commits of a record that are not made yet, or undo those that are."""
        number, commits = int(record["number"]), [TableCommit(**table) for table in record["tables"]]
        _log.warning("completing a transaction of a server that died", tables=[one.table for one in commits])
        present = [commit for commit in commits if self._is_there(commit)]
        call = Call(timeout=_RECOVERY_SECONDS)
        with contextlib.ExitStack() as held:
            for commit in present:
                held.enter_context(shared(commit.root, commit.table))
            held.enter_context(holding_logs([commit.root for commit in present], call.check))
            held.enter_context(self._held(call, fcntl.LOCK_EX))
            if path.suffix == _UNDOING:
                self._undo(path, number, present)
                return
            try:
                for commit in present:
                    self._make(commit, number)
            except ConflictError:
                self._undo(path, number, present)
                return
        path.unlink()

    def _undo(self, path: Path, number: int, commits: Sequence[TableCommit]) -> list[str] | None:
        """End a transaction that a program without our locks has come in between of.

        Return the tables of which the commits cannot be taken back, None if there were no commits. Raises
        UnavailableError if the disk does not take that; the record stays, and says that it is to be done.
        """
        try:
            undoing = path.with_suffix(_UNDOING)
            path.rename(undoing)
            write_through(self._folder)
            made = [commit for commit in commits if commit.version(number) is not None]
            kept = [one.table for one in made if not undo(one, number, self._log(one.root))]
            for commit in made:
                _flush_log(commit)
            _unlink(*_moved([commit for commit in commits if commit not in made]))
            if made:
                _log.error(
                    "another program has changed or removed files between the commits of a transaction",
                    undone=[commit.table for commit in made if commit.table not in kept],
                    not_undone=kept,
                    not_committed=[commit.table for commit in commits if commit not in made],
                )
            undoing.unlink()
        except OSError as error:
            raise _UnfinishedUndoError from error
        return kept if made else None

    def _make(self, commit: TableCommit, number: int) -> None:
        """Move the files of a commit and make it, unless that is done; it is on the disk then."""
        if commit.version(number) is None:
            self._write(commit, number)
        _flush_log(commit)

    def _write(self, commit: TableCommit, number: int | None) -> None:
        """Move the files of a commit and make it. Whatever is raised, it was not made."""
        try:
            for name in commit.files:
                _move(Path(commit.folder) / name, Path(commit.root) / name)
        except FileNotFoundError as error:
            raise ConflictError(
                commit.table, "what was staged for it was removed by another program"
            ) from error
        actions = list(commit.actions)
        if number is not None:
            actions.append(mark(number))
        new = NewCommit(
            commit.table,
            commit.root,
            self._log(commit.root).header(commit.base_version),
            commit.operation,
            commit.parameters,
            actions,
            commit.keys,
            commit.metrics,
        )
        write_commit(new, is_locked=True)

    def _is_there(self, commit: TableCommit) -> bool:
        """Tell whether the table of a commit still exists; what was dropped needs no commit."""
        try:
            return self._log(commit.root).header().metadata.table_id == commit.table_id
        except NotFoundError:
            return False

    def awaits(self, roots: Collection[str]) -> bool:
        """Return whether there is a record with one of these tables.

        To whoever holds their logs it is one of a server that died: a living one would hold them.
        """
        for path in self._records():
            with contextlib.suppress(FileNotFoundError):
                record = json.loads(path.read_bytes())
                if any(table["root"] in roots for table in record["tables"]):
                    return True
        return False

    def _orphans(self) -> list[Path]:
        """Return the records that nobody holds."""
        return [path for path in self._records() if _is_free(path)]

    def _records(self) -> list[Path]:
        return [path for path in self._listed() if path.suffix in {_SUFFIX, _UNDOING}]

    def _listed(self) -> list[Path]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208  (before every commit)
        except FileNotFoundError:
            return []
        return [self._folder / name for name in names]

    def _remove_unwritten(self) -> None:
        """Remove the records that servers were writing when they died; the folder is held, so none is new."""
        with contextlib.suppress(OSError):
            _unlink(*(path for path in self._listed() if path.suffix == _UNWRITTEN))

    @contextlib.contextmanager
    def _held(self, call: Call, mode: int) -> Iterator[None]:
        """Hold the lock of the folder: shared by those who read, alone by the one who publishes."""
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield  # there never was a transaction over several tables
            return
        try:
            while not _try_lock(folder, mode):
                call.check()
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(folder)


@contextlib.contextmanager
def _withdrawn_on_failure(commits: Sequence[TableCommit]) -> Iterator[None]:
    """Leave no files in the tables' folders if the commits could not be made."""
    try:
        yield
    except BaseException:
        _unlink(*_moved(commits))
        raise


def _undone(conflict: ConflictError, kept: Sequence[str] | None) -> ConflictError:
    """Return the error for a transaction whose commits were taken back, but for those to some tables."""
    if kept is None:
        return conflict
    detail = (
        "another program changed it, or removed what was staged for it, during the commit; the transaction"
        " was undone"
    )
    if kept:
        detail += f", but for tables {', '.join(kept)}, which that program has changed too"
    return ConflictError(conflict.table, detail)


def _flush_log(commit: TableCommit) -> None:
    write_through(Path(commit.root) / "_delta_log")


def _moved(commits: Sequence[TableCommit]) -> list[Path]:
    return [Path(commit.root) / name for commit in commits for name in commit.files]


def _move(source: Path, target: Path) -> None:
    """Move a file, unless that is done."""
    try:
        source.rename(target)
    except FileNotFoundError:
        if not target.exists():
            raise
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # The table is on another disk than the warehouse.
        copy = target.with_name(f".{target.name}.tmp")
        shutil.copyfile(source, copy)
        write_through(copy)
        copy.rename(target)
        source.unlink()


@contextlib.contextmanager
def _adopted(path: Path) -> Iterator[dict[str, Any] | None]:
    """Hold a record that nobody holds, and yield what it says; None if another was faster."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        is_mine = _try_lock(opened, fcntl.LOCK_EX) and path.exists()
        yield json.loads(path.read_bytes()) if is_mine else None
    except (SparkportError, OSError, ValueError, KeyError, TypeError) as error:
        _log.error(
            "a transaction of a server that died could not be completed; the next use tries again",
            reason=f"{type(error).__name__}: {error}",
        )
        raise UnavailableError("a transaction of a server that died could not be completed yet") from error
    finally:
        os.close(opened)


def _is_free(path: Path) -> bool:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return _try_lock(opened, fcntl.LOCK_SH)
    finally:
        os.close(opened)


def _try_lock(opened: int, mode: int) -> bool:
    try:
        fcntl.flock(opened, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlink(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
