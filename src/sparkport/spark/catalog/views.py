"""The views of a warehouse as tables: one object for each, the same as long as nobody changes the view."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sparkport.catalog.call import Call
from sparkport.errors import AlreadyExistsError
from sparkport.spark.engine import Engine
from sparkport.spark.views.definition import ViewDefinition
from sparkport.spark.views.store import ViewStore
from sparkport.spark.views.table import QueryReader, ViewTable


class WarehouseViews:
    """The views of one engine's warehouse. Safe to use from many threads."""

    def __init__(self, engine: Engine, reader: QueryReader) -> None:
        self.store = ViewStore(engine.warehouse.root)
        self._reader = reader
        self._lock = threading.Lock()
        self._tables: dict[tuple[str, str], ViewTable] = {}

    def table(self, schema: str, name: str) -> ViewTable | None:
        """Return the view of that name, in any letter case, or None."""
        view = self.store.views().get((schema.lower(), name.lower()))
        return None if view is None else self._table(view)

    def tables(self, schema: str) -> Mapping[str, ViewTable]:
        """Return the views of a schema by name."""
        views = self.store.views()
        return {v.name: self._table(v) for (own, _), v in views.items() if own == schema.lower()}

    def check_free(self, schema: str, name: str) -> None:
        """Make sure that a table can have a name. Raises AlreadyExistsError."""
        view = self.table(schema, name)
        if view is not None:
            raise AlreadyExistsError("view", str(view))

    def drop_all(self, call: Call, schema: str) -> int:
        """Drop the views of a schema and return how many there were."""
        views = self.tables(schema).values()
        for view in views:
            call.check()
            self.store.remove(view.definition)
        return len(views)

    def _table(self, view: ViewDefinition) -> ViewTable:
        with self._lock:
            table = self._tables.get(view.key)
            if table is None or table.definition is not view:
                table = self._tables[view.key] = ViewTable(view, self._reader)
            return table
