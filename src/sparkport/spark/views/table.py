"""A view as the server serves it: a table that is read by its query, with the rights of who reads it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog, TableKind
from sparkport.errors import InvalidRequestError, NotFoundError, PreconditionError
from sparkport.spark.sql_names import quoted
from sparkport.spark.views.definition import ViewDefinition


class QueryReader(Protocol):
    """Runs queries of Spark SQL over the tables and views that a call may read."""

    @abstractmethod
    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Run a query."""
        raise NotImplementedError


class ViewTable:
    """A view. It has no versions: a scan reads the present rows of its tables, or what a transaction sees."""

    def __init__(
        self, definition: ViewDefinition, reader: QueryReader, catalog: Catalog | None = None
    ) -> None:
        """`catalog` is the one of the caller, if that does not see all of it."""
        self.definition = definition
        self._reader = reader
        self._catalog = catalog

    @property
    def name(self) -> str:
        """The view's name."""
        return self.definition.name

    @property
    def path(self) -> tuple[str, str]:
        """Schema and name."""
        return self.definition.path

    @property
    def comment(self) -> str:
        """The view's documentation."""
        return self.definition.comment

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns, which were fixed when the view was made."""
        return self.definition.arrow_schema

    @property
    def table_kind(self) -> TableKind:
        """It is a view."""
        return TableKind.VIEW

    def seen_in(self, catalog: Catalog) -> ViewTable:
        """Return the view for a caller who sees its tables in this catalog."""
        return ViewTable(self.definition, self._reader, catalog)

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query: projected, filtered, cut to the limit."""
        if options.time_point is not None:
            raise InvalidRequestError(f"view '{self.definition}' does not support time travel")
        if self._catalog is not None:
            call = call.on_behalf_of(call.principal.seeing(self._catalog))
        query = f"SELECT * FROM {quoted(*self.definition.path)}"  # noqa: S608  (names are quoted)
        try:
            reader = self._reader.execute(call, [query], options)
        except NotFoundError as error:
            raise PreconditionError(f"view '{self.definition}' cannot be read: {error}") from error
        expected = {field.name: field.type for field in self.arrow_schema}
        for field in reader.schema:
            if expected[field.name] != field.type:
                reader.close()
                raise PreconditionError(
                    f"view '{self.definition}' cannot be read: column '{field.name}' is now {field.type}"
                    f" and was {expected[field.name]}; make the view again (CREATE OR REPLACE VIEW)"
                )
        return reader

    def __str__(self) -> str:
        return str(self.definition)
