"""Commits on the disk itself: what was acknowledged survives a power failure too.

Spark and Hadoop leave it to the file system when to write through what they have written. In an object
store there is nothing to do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkport.spark.delta.errors import report_damage
from sparkport.spark.delta.files.deletion_vectors import vector_location
from sparkport.spark.delta.log import members
from sparkport.spark.delta.log.actions import decode_deletion_vector
from sparkport.spark.delta.log.commits import commit_name, is_own, parse
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.storage.filesystem import is_local, location_of, resolve, storage_of


class Durability:
    """Has the commits to the table in one folder written through to the disk, each once.

    Those of others that come in between are among them: nobody can tell them apart.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached: tuple[str, int] | None = None  # the table's id, and a version of it

    def begin(self, log: DeltaLog) -> None:
        """Note the version after which commits may be our own."""
        if is_local(log.root):
            newest = log.header()
            with self._lock:
                if self._reached is None or self._reached[0] != newest.metadata.table_id:
                    self._reached = newest.metadata.table_id, newest.version

    def reach(self, log: DeltaLog) -> None:
        """Return when the commits since `begin`, or else the newest one, are on the disk with their files."""
        if not is_local(log.root):
            return
        newest = log.header()
        with self._lock:
            table_id, reached = self._reached or ("", 0)
            if table_id != newest.metadata.table_id:  # others have put a new table into the folder
                reached = newest.version - 1
            for version in range(reached + 1, newest.version + 1):
                _write_through_commit(log.root, version)
            self._reached = newest.metadata.table_id, newest.version


def write_through_added(root: str, actions: Iterable[Mapping[str, Any]]) -> None:
    """Have the files written through that actions add to a table, before a commit names them."""
    root = location_of(root)
    if is_local(root):
        _write_through_files([path for action in actions for path in _added_locations(action, root)], root)


def write_through(*paths: Path) -> None:
    """Have files written through, and of folders which names are in them."""
    for path in paths:
        _write_through_file(str(path))


def write_through_folders(folder: Path, top: Path) -> None:
    """Have a folder written through, and those that it is in up to `top`."""
    between = [above for above in folder.parents if above.is_relative_to(top)]
    write_through(folder, *between)


def write_through_checkpoints(log: DeltaLog) -> None:
    """Have the checkpoints of a log written through, and what points at the last one."""
    if is_local(log.root):
        folder = f"{log.root}/_delta_log"
        names = storage_of(folder).names(folder)
        _write_through_files([f"{folder}/{name}" for name in names if "checkpoint" in name], folder)


def _write_through_commit(root: str, version: int) -> None:
    """Write through first what a commit names, then the commit, as far as its writer has not done so."""
    name, folder = commit_name(version), f"{root}/_delta_log"
    try:
        data = storage_of(root).read(f"{folder}/{name}")
    except FileNotFoundError:
        return  # cleaned up since
    with report_damage(root, version, name):
        actions = parse(data)
        if is_own(actions):  # and so on the disk, but for its name
            _write_through_file(folder)
            return
        _write_through_files([path for action in actions for path in _added_locations(action, root)], root)
    _write_through_files([f"{folder}/{name}"], folder)


def _added_locations(action: Mapping[str, Any], root: str) -> Iterator[str]:
    for kind in ("add", "cdc"):
        file = members.optional_object(action, kind)
        if file is not None:
            yield resolve(root, members.text(file, "path"))
            vector = decode_deletion_vector(file)
            if vector is not None and (location := vector_location(vector, root)) is not None:
                yield location


def _write_through_files(paths: Sequence[str], root: str) -> None:
    """Have files written through, and the folders that they are in up to `root`."""
    for path in (*paths, *_folders(paths, root)):
        _write_through_file(path)


def _folders(paths: Sequence[str], root: str) -> set[str]:
    folders: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)  # noqa: PTH120  (no Path for each of many files)
        while folder not in folders:
            folders.add(folder)
            if not folder.startswith(f"{root}/"):  # the table's own folder, or one of another table
                break
            folder = os.path.dirname(folder)  # noqa: PTH120
    return folders


def _write_through_file(path: str) -> None:
    try:
        opened = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return  # removed since, or of another user's, whose program has to see to it
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
