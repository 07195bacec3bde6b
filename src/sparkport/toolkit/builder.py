"""A way to put a catalog together from tables and functions you already have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import ScalarFunction, TableFunction, TableInOutFunction
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Table
from sparkport.toolkit.static import ArrowTable, ScanFunction, StaticCatalog, StaticSchema, StaticTable


@dataclass(slots=True)
class SchemaParts:
    """What was added to one schema."""

    comment: str = ""
    tables: dict[str, Table] = field(default_factory=dict)
    scalars: list[ScalarFunction] = field(default_factory=list)
    table_valued: list[TableFunction | TableInOutFunction] = field(default_factory=list)


class CatalogBuilder:
    """Collects schemas, tables and functions and builds a read-only catalog.

    >>> catalog = (
    ...     CatalogBuilder()
    ...     .schema("demo", comment="Things to try")
    ...     .table("numbers", pa.table({"n": [1, 2, 3]}))
    ...     .build()
    ... )

    `sparkport.App` is a builder too: it adds decorators for Python functions, and actions.
    """

    def __init__(self) -> None:
        self._schemas: dict[str, SchemaParts] = {}
        self._declared: set[str] = set()
        self._current = ""

    @property
    def schema_names(self) -> tuple[str, ...]:
        """The names of all schemas so far: of an app over an engine, those that are not the engine's."""
        return tuple(self._schemas)

    def schema(self, name: str, *, comment: str = "") -> Self:
        """Start a schema: what follows belongs to it, unless it names another schema."""
        _check_new("schema", name, self._declared)
        parts = self._parts(name)
        parts.comment = comment
        self._declared.add(name)
        self._current = name
        return self

    def table(
        self,
        name: str,
        data: pa.Table | Table | None = None,
        *,
        arrow_schema: pa.Schema | None = None,
        reader: Callable[[], pa.RecordBatchReader] | None = None,
        scan: ScanFunction | None = None,
        schema: str = "",
        comment: str = "",
    ) -> Self:
        """Add a table: rows in memory, a `Table` of your own, or a function.

        `reader` is called for each scan and returns a new stream; `scan` also gets
        the call, the columns and the filter. Both need `arrow_schema`.
        """
        tables = self._parts(schema).tables
        _check_new("table", name, tables)
        tables[name] = _table(name, data, arrow_schema, reader, scan, comment)
        return self

    def add_table(
        self, table: Table | pa.Table, *, schema: str = "", name: str = "", comment: str = ""
    ) -> Self:
        """Add a table under its own name, or rows in memory under the name that is given."""
        own_name = "" if isinstance(table, pa.Table) else table.name
        return self.table(name or own_name, table, schema=schema, comment=comment)

    def add_scalar_function(self, function: ScalarFunction, *, schema: str = "") -> Self:
        """Add a scalar function; functions of the same name are overloads."""
        self._parts(schema).scalars.append(function)
        return self

    def add_table_function(self, function: TableFunction | TableInOutFunction, *, schema: str = "") -> Self:
        """Add a function that returns a table; overloads are allowed unless one of them takes a table."""
        functions = self._parts(schema).table_valued
        for other in functions:
            is_same_name = other.name.lower() == function.name.lower()
            if is_same_name and (other.signature.takes_table or function.signature.takes_table):
                raise ValueError(f"{function.name!r}: a function that takes a table cannot be overloaded")
        functions.append(function)
        return self

    def build(self) -> StaticCatalog:
        """Return the catalog; the builder can go on and build another."""
        return StaticCatalog(
            {
                name: StaticSchema(
                    name, dict(parts.tables), parts.comment, tuple(parts.scalars), tuple(parts.table_valued)
                )
                for name, parts in self._schemas.items()
            }
        )

    def _parts(self, schema: str) -> SchemaParts:
        name = schema or self._current
        if not name:
            raise ValueError("call schema() first, or give schema=")
        existing = next((key for key in self._schemas if key.lower() == name.lower()), name)
        return self._schemas.setdefault(existing, SchemaParts())


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
        return ArrowTable(name, data, comment)
    if data is not None:
        if data.name != name:
            raise ValueError(f"table {name!r} was given a table with another name, {data.name!r}")
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


def _check_new(what: str, name: str, existing: Iterable[str]) -> None:
    if not name:
        raise ValueError(f"a {what} needs a name")
    if name.lower() in (other.lower() for other in existing):
        raise ValueError(f"{what} {name!r} already exists")
