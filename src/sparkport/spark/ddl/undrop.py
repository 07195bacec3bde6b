"""Bring dropped tables back from the trash."""

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
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA
from sparkport.spark.warehouse.trash import DroppedTable


def find(call: Call, engine: Engine, catalog: Catalog, schema: str, name: str) -> DroppedTable:
    """Return the table of that name that was dropped last, in any letter case.

    Raises NotFoundError if there is none in the trash, and AlreadyExistsError if the name is taken.
    """
    path = f"{schema}.{name}"
    if "://" in engine.warehouse.root:
        raise UnsupportedOperationError("table", path, "undrop: in an object store a dropped table is gone")
    dropped = engine.trash.tables()
    alike = [table for table in dropped if _folded(table.schema, table.name) == _folded(schema, name)]
    if not alike:
        raise NotFoundError("dropped table", path, [table.name for table in dropped])
    found = next((table for table in alike if (table.schema, table.name) == (schema, name)), alike[0])
    now = catalog.schema(call, found.schema)
    if now is not None and now.table(call, found.name) is not None:
        raise AlreadyExistsError("table", f"{now.name}.{found.name}")
    return found


def restore(call: Call, engine: Engine, catalog: Catalog, schema: str, name: str) -> tuple[DroppedTable, str]:
    """Bring back the table of that name that was dropped last, and return it with the root that it has now.

    A schema that is gone comes back with it. The caller has made sure that nobody else moves folders.
    Raises what `find` does.
    """
    dropped = find(call, engine, catalog, schema, name)
    path = f"{dropped.schema}.{dropped.name}"
    target = _place_of(call, engine, catalog, dropped)
    remove_remnant(str(target), engine.trash)
    # Spark may know the folder from before.
    engine.jobs.run(call, path, functools.partial(log_cache.forget, str(target)))
    try:
        move_folder(dropped.folder, target)
    except FileExistsError as error:
        raise AlreadyExistsError("table", path) from error
    except FileNotFoundError as error:  # another server has removed it, or brought it back
        raise NotFoundError("dropped table", path) from error
    return dropped, str(target)


def _place_of(call: Call, engine: Engine, catalog: Catalog, dropped: DroppedTable) -> Path:
    """Return where a dropped table belongs: where it was, unless that is no longer of its schema."""
    schema = catalog.schema(call, dropped.schema)
    name = dropped.schema if schema is None else schema.name
    if name == DEFAULT_SCHEMA:
        return dropped.original
    folders = map(Path, engine.warehouse.schema_folders(name))
    if any(dropped.original.is_relative_to(folder) for folder in folders):
        return dropped.original
    return Path(engine.warehouse.table_folder(name, dropped.name))


def _folded(schema: str, name: str) -> tuple[str, str]:
    return schema.lower(), name.lower()
