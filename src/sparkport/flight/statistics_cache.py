"""A cache of encoded column statistics, for which DuckDB asks dozens of times to plan one query."""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass

from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import Table
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_COLUMNS = 4096


@dataclass(frozen=True, slots=True)
class StatisticsKey:
    """A column of a snapshot, as one caller gets it in the types of DuckDB or in the table's own."""

    principal: str
    pin: TimePoint
    column: str
    duckdb_types: bool


class StatisticsCache:
    """Keeps the statistics of snapshots; a snapshot with the same name is the same. Keeps no table alive."""

    def __init__(self) -> None:
        self._encoded: BoundedCache[StatisticsKey, tuple[weakref.ref[Table], bytes]] = BoundedCache(
            _MAX_COLUMNS
        )

    def get(self, table: Table, key: StatisticsKey) -> bytes | None:
        """Return the statistics of a column, None if they are not there."""
        cached = self._encoded.get(key)
        return cached[1] if cached is not None and cached[0]() is table else None

    def put(self, table: Table, key: StatisticsKey, encoded: bytes) -> None:
        """Keep the statistics of a column."""
        with contextlib.suppress(TypeError):  # a class of a user's that allows no weak references
            self._encoded.put(key, (weakref.ref(table), encoded))
