"""Drop tables and schemas: remove what belongs to them, and no files of others in their folders.

On a local disk a table is moved to the trash, and a schema's folder is removed once it is empty. In an object
store there are no folders: the objects of the table are removed, one by one if there are others among them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import structlog

from sparkport.errors import PreconditionError, SchemaNotEmptyError
from sparkport.spark.ddl.create import SCHEMA_DETAILS, move_folder
from sparkport.spark.ddl.remnants import is_remnant, remnant_files
from sparkport.spark.delta.commit.durability import write_through
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.storage.filesystem import is_local, storage_of
from sparkport.spark.storage.folder_names import MORE
from sparkport.spark.storage.temp_folders import hold
from sparkport.spark.warehouse.trash import Trash, remove_empty_name_folders

_log = structlog.get_logger("sparkport.spark")

_LOG = "_delta_log"
_COMMITTED = re.compile(r"_delta_log/\d{20}\.(?:json$|checkpoint\.)")
# Files of a table that its newest version does not name: those of older versions, or of none.
_OWN = re.compile(
    r"(?:_delta_log|_change_data|_delta_index|_sparkport)/.*"
    r"|(?:[^/]+/)*[^/]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*\.(?:parquet|bin|crc)"
)


def drop_table(root: str, trash: Trash, named: Collection[str] = ()) -> None:
    """Drop a table: on a local disk atomically, in an object store from the moment its log is removed.

    `named` are the locations of the files that its newest version names. Raises PreconditionError if
    its folder contains another table.
    """
    check_no_table_inside(root)
    if not is_local(root):
        _drop_objects(root, named)
        return
    if trash.hours == 0:
        trash.prepare()
        trash.delete(Path(root))
        return
    _put(Path(root), trash)


def remove_new_table(root: str, version: int, trash: Trash) -> bool:
    """Delete a table if it is still at this version, and return whether it was.

    Another server may commit until the folder is moved: then it is moved back.
    """
    if not is_local(root):
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
    """Move a folder to the trash and return its new path; None if it was deleted because the disk is full."""
    try:
        return trash.put(folder)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
    # Whoever drops a table on a full disk needs the space.
    _log.warning("disk full: dropped table deleted without going to the trash", folder=folder.name)
    trash.delete(folder)
    return None


def _move_back(place: Path, folder: Path) -> None:
    """Move a table from the trash back to its folder, unless that exists again."""
    try:
        move_folder(place, folder)
    except FileExistsError:
        _log.warning("table stays in the trash: another table has its name", folder=folder.name)


def check_no_table_inside(root: str) -> None:
    """Raise PreconditionError if the folder of a table contains another Delta table."""
    inner = next((path for path in _logs_below(root) if path != _LOG), None)
    if inner is not None:
        name = inner.removesuffix(f"/{_LOG}")
        raise PreconditionError(
            f"the folder of this table contains another table, in '{name}'; move that one away first"
        )


def remove_remnant(root: str, trash: Trash) -> None:
    """Remove what writers have left in a folder without committing a table there.

    Anything else stays, and so does a table that another server has created meanwhile.
    """
    files = remnant_files(root)
    if not files:
        return
    if not is_local(root):
        _remove_objects(root, files)
        return
    place = trash.put(Path(root))
    if not is_remnant(str(place)):
        _move_back(place, Path(root))
    elif trash.hours == 0:
        trash.forget(place)


def check_free(root: str, table: str) -> None:
    """Raise PreconditionError if the folder for a new table contains something that is not a table."""
    contents = storage_of(root).contents(root)
    if contents and not any(map(_COMMITTED.match, contents)):  # of a table Delta itself raises an error
        raise PreconditionError(
            f"the folder of table '{table}' contains '{contents[0]}', which does not belong to a table;"
            " move it away first"
        )


def check_droppable(
    schema: str, folders: Collection[str], tables: dict[str, str], views: Sequence[str], *, cascade: bool
) -> None:
    """Check that a schema can be dropped; `tables` are the roots of its tables by name, `views` names.

    Raises SchemaNotEmptyError if there are tables or views and no `cascade`, or other files in its folders,
    and PreconditionError if a folder is a symbolic link.
    """
    roots = frozenset(tables.values())
    others = [path for folder in folders for path in _foreign_entries(folder, roots)]
    inside = [*tables, *views]
    if others or (inside and not cascade):
        raise SchemaNotEmptyError(schema, [] if cascade else inside, others)
    if any(os.path.islink(folder) for folder in folders if is_local(folder)):  # noqa: PTH114
        raise PreconditionError(
            f"cannot drop schema '{schema}': its folder is a symbolic link; remove the link by hand"
        )


def remove_schema_folder(schema: str, folder: str, trash: Trash, hidden: Path) -> None:
    """Remove a schema's folder that contains nothing but what this server has created for the schema itself.

    The file with the schema's details is kept in `hidden` meanwhile, and moved back if the folder turns
    out not to be empty.
    """
    if not is_local(folder):
        _remove_schema_objects(schema, folder)
        return
    for path in list(_remnants(folder)):
        remove_remnant(path, trash)
    details = Path(folder, SCHEMA_DETAILS)
    hold(str(hidden.parent))
    hidden.mkdir()
    try:
        with contextlib.suppress(FileNotFoundError):
            details.rename(hidden / SCHEMA_DETAILS)
        _remove_empty_folder(schema, folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            (hidden / SCHEMA_DETAILS).rename(details)
        raise
    finally:
        (hidden / SCHEMA_DETAILS).unlink(missing_ok=True)
        hidden.rmdir()
    write_through(Path(folder).parent)
    remove_empty_name_folders(Path(folder).parent)


def _remove_empty_folder(schema: str, folder: str) -> None:
    try:
        for inner, _, _ in os.walk(folder, topdown=False):
            if inner == folder or Path(inner).name.startswith(MORE):
                os.rmdir(inner)  # noqa: PTH106  (never more than an empty folder)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            raise SchemaNotEmptyError(schema, [], _foreign_entries(folder, frozenset())) from error
        raise


def _foreign_entries(folder: str, roots: frozenset[str]) -> list[str]:
    """Return what is in a schema's folder besides its tables, its details and remnants of tables."""
    if not is_local(folder):
        return _foreign_objects(folder, roots)
    return [
        path.removeprefix(f"{folder}/")
        for path in _entries(folder)
        if path not in roots and not _is_details(folder, path) and not is_remnant(path)
    ]


def _foreign_objects(folder: str, roots: frozenset[str]) -> list[str]:
    tables = tuple(f"{root}/" for root in roots)
    names = {
        path.partition("/")[0]
        for path in storage_of(folder).contents(folder)
        if path != SCHEMA_DETAILS and not f"{folder}/{path}".startswith(tables)
    }
    return sorted(name for name in names if not is_remnant(f"{folder}/{name}"))


def _entries(folder: str) -> Iterator[str]:
    """Yield the paths in a folder; folders that only continue a long name are searched themselves."""
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):  # another server has removed it
        names = sorted(os.listdir(folder))  # noqa: PTH208
    for name in names:
        path = f"{folder}/{name}"
        if name.startswith(MORE) and os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            yield from _entries(path)
        else:
            yield path


def _remnants(folder: str) -> Iterator[str]:
    return (path for path in _entries(folder) if is_remnant(path))


def _is_details(folder: str, path: str) -> bool:
    return path == f"{folder}/{SCHEMA_DETAILS}" and Path(path).is_file() and not Path(path).is_symlink()


def _logs_below(root: str) -> Iterator[str]:
    """Yield the relative paths of the log folders within a folder."""
    if not is_local(root):
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
    _log.warning(
        "dropped a table; objects that do not belong to it stay in its place",
        objects=len(contents) - len(own),
    )


def _remove_schema_objects(schema: str, folder: str) -> None:
    storage = storage_of(folder)
    for name in {path.partition("/")[0] for path in storage.contents(folder)} - {SCHEMA_DETAILS}:
        _remove_objects(f"{folder}/{name}", remnant_files(f"{folder}/{name}"))
    if others := [path for path in storage.contents(folder) if path != SCHEMA_DETAILS]:
        raise SchemaNotEmptyError(schema, [], others)
    # Removing its objects one by one would leave an empty folder, which is a schema too.
    storage.remove(folder)


def _remove_objects(folder: str, paths: Collection[str]) -> None:
    """Remove objects one by one, and the folder marker that Arrow leaves if those were all."""
    storage = storage_of(folder)
    for path in paths:
        storage.unlink(f"{folder}/{path}")
    if paths and not storage.contents(folder):
        storage.remove(folder)
