"""Checkpoints of a table's log, written beside its statements: in Delta every so many wait for one."""

from __future__ import annotations

import functools
import threading

import structlog

from sparkport.catalog.call import Call
from sparkport.errors import SparkportError, UnavailableError
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.commit.read_write_lock import ReadWriteLock
from sparkport.spark.delta.durability import write_through_checkpoints
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.delta.snapshots import TableHeader
from sparkport.spark.delta_jvm import log_cache
from sparkport.spark.session.jobs import Jobs

_log = structlog.get_logger("sparkport.spark")

_INTERVAL = "delta.checkpointInterval"
_DELTAS_INTERVAL = 10
_MAX_INTERVAL = 50


class Checkpointing:
    """Keeps the log of one table short, with one checkpoint at a time.

    A table is not dropped, renamed or altered while a checkpoint is written: `gate` keeps them apart.
    """

    def __init__(self, jobs: Jobs, gate: ReadWriteLock) -> None:
        self._jobs = jobs
        self._gate = gate
        self._writing = threading.Lock()
        # At this version of a table; a checkpoint that failed is not tried again with every statement.
        self._tried = "", 0

    def tend(self, table: str, log: DeltaLog) -> None:
        """Begin to write a checkpoint if one is due."""
        if self._jobs.host.is_connect or self._writing.locked():
            return  # over Spark Connect Delta writes them itself
        try:
            newest, last = log.last_checkpoint()
            header = log.header(newest)
            table_id, tried = self._tried
            tried = tried if table_id == header.metadata.table_id else 0
            due = newest - max(last, tried) >= _interval(header)
        except (SparkportError, OSError) as error:  # others may have dropped the table
            _log.debug("no checkpoint", table=table, reason=str(error))
            return
        if due and self._writing.acquire(blocking=False):
            self._tried = header.metadata.table_id, newest
            threading.Thread(target=self._write, args=(table, log), name="checkpoint", daemon=True).start()

    def _write(self, table: str, log: DeltaLog) -> None:
        try:
            with self._gate.shared(Call()):
                work = functools.partial(log_cache.checkpoint, log.root)
                self._jobs.run(Call(), table, while_writing(log.root, table, work))
                write_through_checkpoints(log)
        except UnavailableError as error:
            _log.debug("no checkpoint", table=table, reason=str(error))
        except Exception as error:  # noqa: BLE001  (nobody waits for it, and without it all works)
            _log.warning("no checkpoint could be written", table=table, reason=type(error).__name__)
        finally:
            self._writing.release()


def _interval(header: TableHeader) -> int:
    """Return after how many commits a table wants a checkpoint, or gets one all the same."""
    wanted = header.metadata.configuration.get(_INTERVAL, "")
    return min(int(wanted) if wanted.isdecimal() and int(wanted) else _DELTAS_INTERVAL, _MAX_INTERVAL)
