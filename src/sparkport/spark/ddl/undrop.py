"""Restore dropped tables from the trash."""

from __future__ import annotations

import functools
from pathlib import Path

from sparkport.catalog.call import Call
from sparkport.catalog.tables import Catalog
from sparkport.errors import AlreadyExistsError, NotFoundError, UnsupportedOperationError
from sparkport.spark.ddl.create import move_folder
from sparkport.spark.ddl.drop import remove_remnant
from sparkport.spark.delta_jvm import log_cache
from sparkport.spark.engine import Engine
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA
from sparkport.spark.warehouse.trash import DroppedTable


def find(call: Call, engine: Engine, catalog: Catalog, schema: str, name: str) -> DroppedTable:
    """Return the table of that name, in any letter case, that was dropped last.

    Raises NotFoundError if there is none in the trash, and AlreadyExistsError if the name is in use.
    """
    path = f"{schema}.{name}"
    if not is_local(engine.warehouse.root):
        raise UnsupportedOperationError(
            "table", path, "undrop: in an object store dropped tables are deleted at once"
        )
    dropped = engine.trash.tables()
    alike = [table for table in dropped if _lower(table.schema, table.name) == _lower(schema, name)]
    if not alike:
        # A caller whose view is limited may not know what else was there.
        known = [table.name for table in dropped] if call.principal.view is None else []
        raise NotFoundError("dropped table", path, known)
    newest = next((table for table in alike if (table.schema, table.name) == (schema, name)), alike[0])
    existing = catalog.schema(call, newest.schema)
    if existing is not None and existing.table(call, newest.name) is not None:
        raise AlreadyExistsError("table", f"{existing.name}.{newest.name}")
    return newest


def restore(call: Call, engine: Engine, catalog: Catalog, schema: str, name: str) -> tuple[DroppedTable, str]:
    """Restore the table of that name that was dropped last, and return it with its new root.

    A schema that was dropped too is restored with it. The caller holds the lock for moving folders.
    Raises what `find` does.
    """
    dropped = find(call, engine, catalog, schema, name)
    path = f"{dropped.schema}.{dropped.name}"
    target = _target_folder(call, engine, catalog, dropped)
    remove_remnant(str(target), engine.trash)
    # Spark may have cached the folder before the DROP.
    engine.jobs.run(call, path, functools.partial(log_cache.forget, str(target)))
    try:
        move_folder(dropped.folder, target)
    except FileExistsError as error:
        raise AlreadyExistsError("table", path) from error
    except FileNotFoundError as error:  # another server has removed or restored it
        raise NotFoundError("dropped table", path) from error
    return dropped, str(target)


def _target_folder(call: Call, engine: Engine, catalog: Catalog, dropped: DroppedTable) -> Path:
    """Return the folder to restore a table to: the one it had, unless its schema has another folder now."""
    schema = catalog.schema(call, dropped.schema)
    name = dropped.schema if schema is None else schema.name
    if name == DEFAULT_SCHEMA:
        return dropped.original
    folders = map(Path, engine.warehouse.schema_folders(name))
    if any(dropped.original.is_relative_to(folder) for folder in folders):
        return dropped.original
    return Path(engine.warehouse.table_folder(name, dropped.name))


def _lower(schema: str, name: str) -> tuple[str, str]:
    return schema.lower(), name.lower()
