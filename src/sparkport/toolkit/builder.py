"""A fluent way to put a catalog together from tables you already have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Table
from sparkport.toolkit.static import ScanFunction, StaticCatalog, StaticSchema, StaticTable, table_scan


class CatalogBuilder:
    """Collects schemas and tables and builds a read-only catalog.

    >>> catalog = (
    ...     CatalogBuilder()
    ...     .schema("demo", comment="Things to try")
    ...     .table("numbers", pa.table({"n": [1, 2, 3]}))
    ...     .build()
    ... )
    """

    def __init__(self) -> None:
        self._schemas: dict[str, StaticSchema] = {}
        self._current: StaticSchema | None = None

    def schema(self, name: str, *, comment: str = "") -> Self:
        """Start a schema; the tables that follow belong to it."""
        _check_new("schema", name, self._schemas)
        self._current = StaticSchema(name, {}, comment)
        self._schemas[name] = self._current
        return self

    def table(
        self,
        name: str,
        data: pa.Table | Table | None = None,
        *,
        arrow_schema: pa.Schema | None = None,
        reader: Callable[[], pa.RecordBatchReader] | None = None,
        scan: ScanFunction | None = None,
        comment: str = "",
    ) -> Self:
        """Add a table: rows in memory, a `Table` of your own, or a function.

        `reader` is called for each scan and returns a fresh stream; `scan` also
        learns of the call, the columns and the filter. Both need `arrow_schema`.
        """
        if self._current is None:
            raise ValueError("call schema() before table()")
        _check_new("table", name, self._current.by_name)
        self._current.by_name[name] = _table(name, data, arrow_schema, reader, scan, comment)
        return self

    def build(self) -> StaticCatalog:
        """Return the catalog; the builder can go on and build another."""
        schemas = {
            name: StaticSchema(name, dict(schema.by_name), schema.comment)
            for name, schema in self._schemas.items()
        }
        return StaticCatalog(schemas)


def _table(
    name: str,
    data: pa.Table | Table | None,
    arrow_schema: pa.Schema | None,
    reader: Callable[[], pa.RecordBatchReader] | None,
    scan: ScanFunction | None,
    comment: str,
) -> Table:
    if sum(source is not None for source in (data, reader, scan)) != 1:
        raise ValueError(f"table {name!r} needs exactly one of data, reader and scan")
    if isinstance(data, pa.Table):
        return StaticTable(name, data.schema, table_scan(data), comment)
    if data is not None:
        if data.name != name:
            raise ValueError(f"table {name!r} is given a table that calls itself {data.name!r}")
        return data
    if arrow_schema is None:
        raise ValueError(f"table {name!r} needs arrow_schema beside its function")
    if reader is not None:
        return StaticTable(name, arrow_schema, _fresh(reader), comment)
    assert scan is not None
    return StaticTable(name, arrow_schema, scan, comment)


def _fresh(reader: Callable[[], pa.RecordBatchReader]) -> ScanFunction:
    def scan(call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        del options
        call.check()
        return reader()

    return scan


def _check_new(kind: str, name: str, known: Iterable[str]) -> None:
    if not name:
        raise ValueError(f"a {kind} needs a name")
    if name.lower() in (other.lower() for other in known):
        raise ValueError(f"{kind} {name!r} is there already")
