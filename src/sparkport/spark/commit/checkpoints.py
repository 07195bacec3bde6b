"""Checkpoints of a table's log, written in the background: Delta makes every n-th statement wait for one."""

from __future__ import annotations

import functools
import threading

import structlog

from sparkport.catalog.call import Call
from sparkport.errors import SparkportError, UnavailableError
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.commit.read_write_lock import ReadWriteLock
from sparkport.spark.delta.commit.durability import write_through_checkpoints
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import TableHeader
from sparkport.spark.delta_jvm import log_cache
from sparkport.spark.session.jobs import Jobs

_log = structlog.get_logger("sparkport.spark")

_INTERVAL = "delta.checkpointInterval"
_DEFAULT_INTERVAL = 10
_MAX_INTERVAL = 50


class Checkpointing:
    """Keeps the log of one table short, with one checkpoint at a time.

    A table is not dropped, renamed or altered while a checkpoint is written: the writer shares `lock`.
    """

    def __init__(self, jobs: Jobs, lock: ReadWriteLock) -> None:
        self._jobs = jobs
        self._lock = lock
        self._writing = threading.Lock()
        # The table's id and version: a checkpoint that failed is not tried again with every statement.
        self._last_try = "", 0

    def write_if_due(self, table: str, log: DeltaLog) -> None:
        """Start writing a checkpoint in the background if one is due."""
        if not self._jobs.host.capabilities.delta_transactions or self._writing.locked():
            return  # over Spark Connect Delta writes them itself
        try:
            newest, last = log.last_checkpoint()
            header = log.header(newest)
            table_id, tried = self._last_try
            tried = tried if table_id == header.metadata.table_id else 0
            is_due = newest - max(last, tried) >= _interval(header)
        except (SparkportError, OSError) as error:  # others may have dropped the table
            _log.debug("checkpoint skipped", table=table, reason=str(error))
            return
        if is_due and self._writing.acquire(blocking=False):
            self._last_try = header.metadata.table_id, newest
            threading.Thread(target=self._write, args=(table, log), name="checkpoint", daemon=True).start()

    def _write(self, table: str, log: DeltaLog) -> None:
        try:
            with self._lock.shared(Call()):
                work = functools.partial(log_cache.checkpoint, log.root)
                self._jobs.run(Call(), table, while_writing(log.root, table, work, commits=False))
                write_through_checkpoints(log)
        except UnavailableError as error:
            _log.debug("checkpoint skipped", table=table, reason=str(error))
        except Exception as error:  # noqa: BLE001  (nobody waits for it, and all works without it)
            _log.warning("checkpoint not written", table=table, reason=type(error).__name__)
        finally:
            self._writing.release()


def _interval(header: TableHeader) -> int:
    """Return the number of commits between checkpoints: the table's own setting, within our limit."""
    setting = header.metadata.configuration.get(_INTERVAL, "")
    return min(int(setting) if setting.isdecimal() and int(setting) else _DEFAULT_INTERVAL, _MAX_INTERVAL)
