"""Drop tables and schemas: what is theirs, and nothing that merely lies there.

On a local disk a table is moved to the trash, and a schema's folder is removed once it is empty. In an object
store there are no folders: what is removed are the objects of the table, one by one if others lie among them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import structlog

from sparkport.errors import PreconditionError, SchemaNotEmptyError
from sparkport.spark.ddl.create import SCHEMA_DETAILS, move_folder
from sparkport.spark.ddl.remnants import is_remnant, remnant_files
from sparkport.spark.delta.durability import write_through
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.storage.filesystem import storage_of
from sparkport.spark.storage.folder_names import MORE
from sparkport.spark.storage.temp_folders import hold
from sparkport.spark.warehouse.trash import Trash, prune

_log = structlog.get_logger("sparkport.spark")

_LOG = "_delta_log"
_COMMITTED = re.compile(r"_delta_log/\d{20}\.(?:json$|checkpoint\.)")
# Files of a table besides those that its newest version names: of older ones, or of no version at all.
_OWN = re.compile(
    r"(?:_delta_log|_change_data|_delta_index|_sparkport)/.*"
    r"|(?:[^/]+/)*[^/]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*\.(?:parquet|bin|crc)"
)


def drop_table(root: str, trash: Trash, named: Collection[str] = ()) -> None:
    """Make a table vanish: on a local disk at once, in a store when its log is gone.

    `named` are the locations of the files that its newest version names. Raises PreconditionError if
    another table lies within its folder.
    """
    check_no_table_inside(root)
    if "://" in root:
        _drop_objects(root, named)
        return
    if trash.hours == 0:
        trash.prepare()
        trash.delete(Path(root))
        return
    _put(Path(root), trash)


def remove_new_table(root: str, version: int, trash: Trash) -> bool:
    """Remove a table for good that is at this version, and say whether it still was.

    A commit of another server may come until the folder is moved: then it is moved back.
    """
    if "://" in root:
        drop_table(root, trash)
        return True
    place = _put(Path(root), trash)
    if place is None:
        return True
    if DeltaLog(str(place)).newest_version() == version:
        trash.forget(place)
        return True
    _move_back(place, Path(root))
    return False


def _put(folder: Path, trash: Trash) -> Path | None:
    """Move a folder to the trash and return where it is; None if there was no room but to delete it."""
    try:
        return trash.put(folder)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
    # Whoever drops a table on a full disk needs the room.
    _log.warning("the disk is full: a dropped table is deleted at once", folder=folder.name)
    trash.delete(folder)
    return None


def _move_back(place: Path, folder: Path) -> None:
    """Move a table from the trash to where it was, unless there is another one by now."""
    try:
        move_folder(place, folder)
    except FileExistsError:
        _log.warning("a table stays in the trash: its name is taken", folder=folder.name)


def check_no_table_inside(root: str) -> None:
    """Raise PreconditionError if another Delta table lies within the folder of a table."""
    inner = next((path for path in _logs_below(root) if path != _LOG), None)
    if inner is not None:
        name = inner.removesuffix(f"/{_LOG}")
        raise PreconditionError(
            f"another table lies within the folder of this one, in '{name}'; move it away first"
        )


def remove_remnant(root: str, trash: Trash) -> None:
    """Clear the folder of a new table of what writers have left there without ever committing it.

    Anything else stays, and so does a table of a server that was faster.
    """
    files = remnant_files(root)
    if not files:
        return
    if "://" in root:
        _remove_objects(root, files)
        return
    place = trash.put(Path(root))
    if not is_remnant(str(place)):
        _move_back(place, Path(root))
    elif trash.hours == 0:
        trash.forget(place)


def check_free(root: str, table: str) -> None:
    """Raise PreconditionError if the folder for a new table has anything in it but a table."""
    contents = storage_of(root).contents(root)
    if contents and not any(map(_COMMITTED.match, contents)):  # Delta itself tells of a table
        raise PreconditionError(
            f"the folder of table '{table}' holds '{contents[0]}', which is no table of this server;"
            " move it away first"
        )


def check_droppable(schema: str, folders: Collection[str], tables: dict[str, str], *, cascade: bool) -> None:
    """Make sure that a schema can be dropped; `tables` are the roots of its tables by name.

    Raises SchemaNotEmptyError if there are tables and no cascade, or anything in its folders that is not
    known, and PreconditionError if a folder is a symbolic link.
    """
    roots = frozenset(tables.values())
    others = [path for folder in folders for path in _strangers(folder, roots)]
    if others or (tables and not cascade):
        raise SchemaNotEmptyError(schema, [] if cascade else list(tables), others)
    if any(os.path.islink(folder) for folder in folders if "://" not in folder):  # noqa: PTH114
        raise PreconditionError(f"schema '{schema}' cannot be dropped: its folder is a symbolic link")


def remove_schema_folder(schema: str, folder: str, trash: Trash, hidden: Path) -> None:
    """Remove a folder that has nothing in it but what this server has made for the schema itself.

    `hidden` is where the marker waits meanwhile, which comes back if somebody has put a file there since.
    """
    if "://" in folder:
        _remove_schema_objects(schema, folder)
        return
    for path in list(_remnants(folder)):
        remove_remnant(path, trash)
    marker = Path(folder, SCHEMA_DETAILS)
    hold(str(hidden.parent))
    hidden.mkdir()
    try:
        with contextlib.suppress(FileNotFoundError):
            marker.rename(hidden / SCHEMA_DETAILS)
        _remove_empty_folder(schema, folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            (hidden / SCHEMA_DETAILS).rename(marker)
        raise
    finally:
        (hidden / SCHEMA_DETAILS).unlink(missing_ok=True)
        hidden.rmdir()
    write_through(Path(folder).parent)
    prune(Path(folder).parent)


def _remove_empty_folder(schema: str, folder: str) -> None:
    try:
        for inner, _, _ in os.walk(folder, topdown=False):
            if inner == folder or Path(inner).name.startswith(MORE):
                os.rmdir(inner)  # noqa: PTH106  (never more than an empty folder)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            raise SchemaNotEmptyError(schema, [], _strangers(folder, frozenset())) from error
        raise


def _strangers(folder: str, roots: frozenset[str]) -> list[str]:
    """Return what lies in a schema's folder and is neither the schema's marker, a table nor a remnant."""
    if "://" in folder:
        return _strange_objects(folder, roots)
    return [
        path.removeprefix(f"{folder}/")
        for path in _entries(folder)
        if path not in roots and not _is_marker(folder, path) and not is_remnant(path)
    ]


def _strange_objects(folder: str, roots: frozenset[str]) -> list[str]:
    tables = tuple(f"{root}/" for root in roots)
    found = {
        path.partition("/")[0]
        for path in storage_of(folder).contents(folder)
        if path != SCHEMA_DETAILS and not f"{folder}/{path}".startswith(tables)
    }
    return sorted(name for name in found if not is_remnant(f"{folder}/{name}"))


def _entries(folder: str) -> Iterator[str]:
    """Yield the paths of what is in a folder; of a folder for the rest of a long name, what is in that."""
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):  # another server was faster
        names = sorted(os.listdir(folder))  # noqa: PTH208
    for name in names:
        path = f"{folder}/{name}"
        if name.startswith(MORE) and os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            yield from _entries(path)
        else:
            yield path


def _remnants(folder: str) -> Iterator[str]:
    return (path for path in _entries(folder) if is_remnant(path))


def _is_marker(folder: str, path: str) -> bool:
    return path == f"{folder}/{SCHEMA_DETAILS}" and Path(path).is_file() and not Path(path).is_symlink()


def _logs_below(root: str) -> Iterator[str]:
    """Yield the folders of logs within a folder, by relative path."""
    if "://" in root:
        parents = {
            path.rpartition(f"{_LOG}/")[0] for path in storage_of(root).contents(root) if f"{_LOG}/" in path
        }
        yield from (f"{parent}{_LOG}" for parent in sorted(parents))
        return
    for inner, folders, _ in os.walk(root):
        if _LOG in folders:
            yield os.path.relpath(f"{inner}/{_LOG}", root)
        folders[:] = [name for name in folders if name not in {_LOG, "_sparkport", "_change_data"}]


def _drop_objects(root: str, named: Collection[str]) -> None:
    storage = storage_of(root)
    contents = storage.contents(root)
    own = [path for path in contents if _OWN.fullmatch(path) or f"{root}/{path}" in named]
    storage.remove(f"{root}/{_LOG}")
    if len(own) == len(contents):
        storage.remove(root)
        return
    _remove_objects(root, own)
    _log.warning("objects of others stay where a table was dropped", objects=len(contents) - len(own))


def _remove_schema_objects(schema: str, folder: str) -> None:
    storage = storage_of(folder)
    for name in {path.partition("/")[0] for path in storage.contents(folder)} - {SCHEMA_DETAILS}:
        _remove_objects(f"{folder}/{name}", remnant_files(f"{folder}/{name}"))
    if others := [path for path in storage.contents(folder) if path != SCHEMA_DETAILS]:
        raise SchemaNotEmptyError(schema, [], others)
    # Of its objects alone the last would leave an empty folder, which is a schema too.
    storage.remove(folder)


def _remove_objects(folder: str, paths: Collection[str]) -> None:
    """Remove objects one by one, and what Arrow leaves of folders if those were all."""
    storage = storage_of(folder)
    for path in paths:
        storage.unlink(f"{folder}/{path}")
    if paths and not storage.contents(folder):
        storage.remove(folder)
