"""The Spark session: started in the background, watched, started again."""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog
from pyspark.sql import SparkSession

from sparkport.catalog import Call
from sparkport.catalog.measures import MEASURES
from sparkport.errors import SparkportError, UnavailableError
from sparkport.spark.errors import RejectedStatementError, is_session_lost, translate, user_failure
from sparkport.spark.session.capabilities import Capabilities
from sparkport.spark.session.class_archive import archive_options
from sparkport.spark.session.delta_jars import Progress, delta_jars
from sparkport.spark.session.java_home import find_java
from sparkport.spark.session.process import Jvm, forget_session, has_session, new_session, silence_pyspark
from sparkport.spark.session.settings import SparkSettings, session_conf, start_conf
from sparkport.spark.session.warmup import warm_up
from sparkport.spark.storage.temp_folders import owned, remove_orphans

_log = structlog.get_logger("sparkport.spark")

_SCRATCH = "sparkport-scratch-"
_REPORT_SECONDS = 5.0
_FIRST_CALLS_SECONDS = 0.2
_STOP_SECONDS = 10.0
_DEATH_SECONDS = 0.5
_FIRST_BACK_OFF = 1.0
_MAX_BACK_OFF = 60.0


@dataclass(frozen=True, slots=True)
class _Link:
    """A session that is up, and the process behind it when it is ours."""

    session: SparkSession
    jvm: Jvm | None
    scratch: tempfile.TemporaryDirectory[str] | None

    @property
    def alive(self) -> bool:
        return self.jvm is None or self.jvm.alive


class SparkHost:
    """Keeps one Spark session available to all threads.

    The session starts in the background and is replaced when it is lost: calls
    that run then get UnavailableError, later ones wait for the new session.
    A process can have one host at a time: PySpark keeps its state per process.
    """

    def __init__(self, settings: SparkSettings, *, progress: Progress | None = None) -> None:
        self.settings = settings
        self._progress = progress
        self._changed = threading.Condition()
        self._link: _Link | None = None
        self._starter: threading.Thread | None = None
        self._failure: str | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._stopped = False
        self._launched: Jvm | None = None
        self._uses = 0
        self.is_warm = threading.Event()

    @property
    def is_connect(self) -> bool:
        """Whether the session lives in a Spark Connect server."""
        return self.settings.is_connect

    @property
    def is_embedded(self) -> bool:
        """Whether Spark runs in a process of the server's own, on this machine alone."""
        return self.settings.is_embedded

    @property
    def capabilities(self) -> Capabilities:
        """What the session can do for the server."""
        return self.settings.capabilities

    @property
    def is_up(self) -> bool:
        """Whether there is a session now."""
        return self._link is not None

    @property
    def process_id(self) -> int | None:
        """The Java process of the session, while there is one."""
        link = self._link
        return link.jvm.process.pid if link and link.jvm else None

    def problem(self) -> str:
        """Return why there is no session now; empty if there is one."""
        with self._changed:
            if self._link is not None:
                return ""
            return self._failure or ("Spark was stopped" if self._stopped else "Spark is starting")

    def start(self) -> None:
        """Begin to start the session and return at once."""
        with self._changed:
            self._begin()

    def session(self, call: Call) -> SparkSession:
        """Return the session, and wait for it while it starts.

        Raises UnavailableError when it cannot be started; a later call tries again.
        """
        return self._wait(call).session

    @contextlib.contextmanager
    def use(self, call: Call, table: str = "") -> Iterator[SparkSession]:
        """Give the session to a block of work, whose errors become ours; `table` is named in them."""
        link = self._wait(call)
        with self._changed:
            self._uses += 1
        try:
            yield link.session
        except (SparkportError, RejectedStatementError):
            raise
        except Exception as error:
            # Once its process is gone, PySpark fails in ways that say nothing of it.
            is_lost = self._is_lost(link, error)
            ours = None if is_lost else translate(error, table) or user_failure(error)
            if is_lost or (ours is None and _is_dying(link)):
                self._lose(link)
                raise UnavailableError("Spark stopped while it worked on this call; try again") from error
            call.check()
            if ours is None:
                raise
            raise ours from error
        finally:
            with self._changed:
                self._uses -= 1
                self._changed.notify_all()

    def stop(self, patience: float = _STOP_SECONDS) -> None:
        """End the session and its process, by force after `patience` seconds; the host is done then."""
        with self._changed:
            self._stopped = True
            link, self._link = self._link, None
            starter, launched = self._starter, self._launched
            self._changed.notify_all()
        if link is not None:
            _close(link, patience)
        elif launched is not None:
            launched.kill()
        if starter is not None:
            # PySpark goes on trying for minutes to reach a Spark Connect server that does not answer.
            starter.join(patience)

    def kill(self) -> None:
        """End Spark's process at once. It is started again; what runs on it gets UnavailableError."""
        link = self._link
        if link is not None and link.jvm is not None:
            link.jvm.kill()
            self._lose(link)

    def _wait(self, call: Call) -> _Link:
        begun = time.monotonic()
        with self._changed:
            while not call.wait_for(self._changed, self._is_up, _REPORT_SECONDS):
                _log.info("waiting for Spark", seconds=round(time.monotonic() - begun))
            assert self._link is not None
            return self._link

    def _is_up(self) -> bool:
        """Return whether there is a session; begin to start one if not.

        Raises UnavailableError while it is too early to start one again, or if it will never be.
        """
        if self._stopped:
            raise UnavailableError("Spark was stopped")
        if self._link is not None:
            return True
        if self._starter is None and self._failure is not None and time.monotonic() < self._retry_at:
            raise UnavailableError(self._failure)
        self._begin()
        return False

    def _begin(self, lost: _Link | None = None) -> None:
        if self._starter is None and self._link is None and not self._stopped:
            self._starter = threading.Thread(
                target=self._start, args=(lost,), name="spark-start", daemon=True
            )
            self._starter.start()

    def _start(self, lost: _Link | None) -> None:
        begun = time.monotonic()
        silence_pyspark()
        try:
            # A server that does not answer cannot be told that its session is over.
            if lost is not None and lost.jvm is not None:
                _close(lost)
            link = self._connect() if self.is_connect else self._launch()
        except Exception as error:  # noqa: BLE001
            self._record_failure(error)
            return
        version = link.session.version
        with self._changed:
            self._starter = None
            stopped = self._stopped
            if not stopped:
                self._link, self._failure, self._failures = link, None, 0
                # Before those who wait go on, and tell what they do.
                _log.info("Spark is up", version=version, seconds=round(time.monotonic() - begun, 1))
            self._changed.notify_all()
        if stopped:
            _close(link)
            return
        if link.jvm is not None:
            threading.Thread(target=self._watch, args=(link,), name="spark-watch", daemon=True).start()
        if self.settings.warm_up:
            folder = link.scratch.name if link.scratch and self.is_embedded else None
            warm_up(link.session, self.settings.cores, folder, lambda: self._is_idle(link))
            self.is_warm.set()

    def _is_idle(self, link: _Link) -> bool:
        """Wait until no call uses the session, which a warm-up would slow; return whether it is there."""
        with self._changed:
            # Whoever has waited for the session goes first.
            self._changed.wait_for(lambda: self._link is not link, _FIRST_CALLS_SECONDS)
            self._changed.wait_for(lambda: not self._uses or self._link is not link)
            return self._link is link

    def _record_failure(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, SparkportError) else "see the server's log"
        with self._changed:
            launched, self._launched = self._launched, None
            self._starter = None
            self._failures += 1
            self._failure = f"Spark could not be started: {reason}"
            self._retry_at = time.monotonic() + min(
                _FIRST_BACK_OFF * 2 ** (self._failures - 1), _MAX_BACK_OFF
            )
            self._changed.notify_all()
            stopped = self._stopped
        if stopped:
            return
        # Written out here: a renderer of its own would print local variables, settings among them.
        trace = "" if isinstance(error, SparkportError) else "".join(traceback.format_exception(error))
        said = {"cause": launched.last_cause, "output": launched.last_lines} if launched else {}
        _log.error("Spark could not be started", reason=reason, exception=trace, **said)

    def _launch(self) -> _Link:
        """Start a driver in a Java process of our own."""
        settings = self.settings
        if has_session():
            raise UnavailableError("this process already has a Spark session")
        java = find_java()
        jars: tuple[Path, ...] = ()
        if not settings.brings_delta:
            jars = delta_jars(
                settings.jars_folder, ivy_settings=settings.ivy_settings, progress=self._progress
            )
        folder = tempfile.gettempdir()
        remove_orphans(folder, _SCRATCH)
        scratch = tempfile.TemporaryDirectory(prefix=owned(folder, _SCRATCH), ignore_cleanup_errors=True)
        archive = archive_options(settings, java, jars)
        conf = start_conf(settings, jars, Path(scratch.name), archive)
        _log.info("starting Spark", java=java.version, class_archive=bool(archive))
        jvm = Jvm(java, conf, Path(scratch.name))
        with self._changed:
            self._launched = jvm
        try:
            session = new_session(jvm.connect(), conf, settings.python)
        except BaseException:
            forget_session()
            jvm.end(0)
            scratch.cleanup()
            raise
        return _Link(session, jvm, scratch)

    def _connect(self) -> _Link:
        """Open a session of a Spark Connect server."""
        try:
            session = SparkSession.builder.remote(self.settings.remote or "").create()
            # It would call the server when this process ends, and go on trying where none answers.
            atexit.unregister(session.client._cleanup_ml_cache)  # noqa: SLF001
            for key, value in session_conf(self.settings).items():
                session.conf.set(key, value)
        except ImportError as error:
            raise UnavailableError(
                "Spark Connect needs more packages: pip install 'sparkport[connect]'"
            ) from error
        except Exception as error:
            raise translate(error) or error from error
        return _Link(session, None, None)

    def _watch(self, link: _Link) -> None:
        assert link.jvm is not None
        link.jvm.process.wait()
        self._lose(link)

    def _is_lost(self, link: _Link, error: Exception) -> bool:
        if self._link is not link or is_session_lost(error):
            return True
        return _is_dying(link) if isinstance(error, OSError | EOFError) else not link.alive

    def _lose(self, link: _Link) -> None:
        """Replace a session that is of no more use."""
        with self._changed:
            if self._link is not link or self._stopped:
                return
            _log.error("Spark was lost and is being restarted")
            MEASURES.count("spark_restarts")
            self._link = None
            self._begin(link)


def _is_dying(link: _Link) -> bool:
    """Return whether Spark's process ends about now: its sockets close a little before that can be seen."""
    if link.jvm is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            link.jvm.process.wait(_DEATH_SECONDS)
    return not link.alive


def _close(link: _Link, patience: float = _STOP_SECONDS) -> None:
    if link.jvm is None:
        link.session.stop()
        return
    if link.jvm.alive:
        # A driver that hangs cannot say goodbye; its death ends the call that waits for it.
        force = threading.Timer(patience, link.jvm.kill)
        force.start()
        try:
            link.session.stop()
        except Exception as error:  # noqa: BLE001
            if not _is_dying(link):
                _log.warning("Spark did not stop cleanly", reason=type(error).__name__)
        finally:
            force.cancel()
    forget_session()
    link.jvm.end(patience)
    if link.scratch is not None:
        link.scratch.cleanup()
