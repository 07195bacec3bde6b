"""The views of a warehouse: one file for each, beside its tables, which all servers of the warehouse see."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import structlog

from sparkport.errors import AlreadyExistsError, NotFoundError
from sparkport.spark.delta.commit.durability import write_through, write_through_folders
from sparkport.spark.storage.errors import UnreadableLogError
from sparkport.spark.storage.filesystem import Stamp, is_local, storage_of
from sparkport.spark.views.definition import ViewDefinition, decode, encode

_log = structlog.get_logger("sparkport.spark")

_SUFFIX = ".json"
_REMOTE_SECONDS = 2.0

Key = tuple[str, str]


class ViewStore:
    """Keeps views. Safe to use from many threads.

    On a local disk a look is always current, and costs one listing of a folder that is often not there.
    """

    def __init__(self, root: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`root` is the folder of the warehouse."""
        self._root = root
        self._folder = f"{root}/_sparkport/views"
        self._storage = storage_of(root)
        self._is_local = is_local(root)
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._stamps: Mapping[str, Stamp] = {}
        self._is_fresh = False
        self._views: Mapping[Key, ViewDefinition] = {}
        self._version = 0

    def views(self) -> Mapping[Key, ViewDefinition]:
        """Return all views by schema and name in lower case."""
        with self._lock:
            self._look()
            return self._views

    def version(self) -> int:
        """Return a number that rises when views are made, changed or dropped, by whomever."""
        with self._lock:
            self._look()
            return self._version

    def create(self, view: ViewDefinition) -> None:
        """Keep a new view. Raises AlreadyExistsError."""
        location = self._location(view.key)
        if not self._is_local:
            with contextlib.suppress(FileNotFoundError):
                self._storage.stamp(location)
                raise AlreadyExistsError("view", str(view))
            self._write(location, encode(view))
        else:
            with self._temporary(encode(view)) as file:
                try:
                    Path(location).hardlink_to(file)
                except FileExistsError as error:
                    raise AlreadyExistsError("view", str(view)) from error
        self._changed()

    def replace(self, view: ViewDefinition) -> None:
        """Keep a view in the place of the one with its name, if there is one."""
        location = self._location(view.key)
        if not self._is_local:
            self._write(location, encode(view))
        else:
            with self._temporary(encode(view)) as file:
                file.replace(location)
        self._changed()

    def remove(self, view: ViewDefinition) -> None:
        """Forget a view. Raises NotFoundError if somebody else has done so."""
        location = self._location(view.key)
        try:
            self._storage.stamp(location)
        except FileNotFoundError as error:
            raise NotFoundError("view", str(view)) from error
        self._storage.unlink(location)
        self._changed()

    def _changed(self) -> None:
        if self._is_local:
            write_through(Path(self._folder))
        with self._lock:
            self._looked_at = float("-inf")

    def _location(self, key: Key) -> str:
        # Names may be anything, and of any length.
        text = f"{len(key[0])} {key[0]} {key[1]}"
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        return f"{self._folder}/{name}{_SUFFIX}"

    def _write(self, location: str, data: bytes) -> None:
        with self._storage.create(location) as file:
            file.write(data)

    @contextlib.contextmanager
    def _temporary(self, data: bytes) -> Iterator[Path]:
        folder = Path(self._folder)
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            write_through_folders(folder, Path(self._root))
        file = folder / f"{uuid.uuid4().hex}.tmp"
        try:
            file.write_bytes(data)
            write_through(file)
            yield file
        finally:
            file.unlink(missing_ok=True)

    def _look(self) -> None:
        """Read the files that have changed since the last look."""
        now = self._clock()
        if not self._is_local and now - self._looked_at < _REMOTE_SECONDS:
            return
        self._looked_at = now
        stamps = self._newest_stamps()
        is_new = stamps != self._stamps
        if not is_new and not self._is_fresh:
            return
        # Stores tell times in seconds: a file that is replaced right after a look may keep its stamp.
        self._is_fresh = is_new and not self._is_local
        self._stamps = stamps
        found = (self._read(name) for name in sorted(stamps))
        views = {view.key: view for view in found if view is not None}
        if views != self._views:
            self._views = views
            self._version += 1

    def _newest_stamps(self) -> dict[str, Stamp]:
        stamps: dict[str, Stamp] = {}
        if not self._is_local:
            with contextlib.suppress(FileNotFoundError):  # there never was a view
                stamps = self._storage.stamps(self._folder)
            return {name: stamp for name, stamp in stamps.items() if name.endswith(_SUFFIX)}
        with contextlib.suppress(FileNotFoundError):
            for name in self._storage.names(self._folder):
                if name.endswith(_SUFFIX):
                    with contextlib.suppress(FileNotFoundError):  # dropped meanwhile
                        stamps[name] = self._storage.stamp(f"{self._folder}/{name}")
        return stamps

    def _read(self, name: str) -> ViewDefinition | None:
        try:
            return decode(self._storage.read(f"{self._folder}/{name}"))
        except FileNotFoundError:  # dropped meanwhile
            return None
        except (ValueError, UnreadableLogError) as error:
            _log.warning("view left out of the listing", file=name, reason=str(error))
            return None
