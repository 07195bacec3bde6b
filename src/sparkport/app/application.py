"""The user's functions, tables and actions in one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, overload

import pyarrow as pa

from sparkport.app.overlay import overlay
from sparkport.app.user_code import functions, tables
from sparkport.app.user_code.declarations import Columns, arrow_schema
from sparkport.app.user_code.offloading import OffloadedScalar
from sparkport.catalog.actions import Action
from sparkport.catalog.call import Call
from sparkport.catalog.functions import Stability
from sparkport.catalog.scan import ClientCall
from sparkport.catalog.tables import Catalog, Table
from sparkport.toolkit.builder import CatalogBuilder, SchemaParts
from sparkport.toolkit.registry import Catalogs
from sparkport.toolkit.static import ScanFunction

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """Takes a function and gives it back."""

    def __call__(self, function: F, /) -> F:
        """Declare the function."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _PythonAction:
    name: str
    comment: str
    function: Callable[..., Any]
    takes_call: bool

    def run(self, call: Call, body: bytes) -> bytes | None:
        """Call the function with the body, and the call if it wants that."""
        result = self.function(call, body) if self.takes_call else self.function(body)
        if result is None or isinstance(result, bytes):
            return result
        raise TypeError(f"an action returns bytes or None, not {type(result).__name__}")


class App(CatalogBuilder):
    """Collects what a server offers beside an engine's tables.

    >>> Texts = Annotated[pa.Array, pa.string()]
    >>> app = App()
    >>> @app.scalar_function(schema="text")
    ... def shout(words: Texts) -> Texts:
    ...     return pc.utf8_upper(words)

    An app is a `CatalogBuilder`: tables and schemas are added in the same way, and what names no
    schema goes into the last one that `schema()` started, before that into the app's own. A
    function's annotations say its types; its name and the first line of its docstring are shown
    to clients. Everything is declared before the server starts; `catalogs` can change while it runs.
    """

    def __init__(self, *, schema: str = "app") -> None:
        super().__init__()
        self._current = schema
        self._offloaded: list[OffloadedScalar] = []
        self.actions: dict[str, Action] = {}
        self.catalogs = Catalogs()
        """The databases of the server that serves this app, to add, drop and list."""

    def scalar_function(
        self,
        *,
        schema: str = "",
        name: str = "",
        parameters: Mapping[str, Any] | pa.Schema | None = None,
        returns: Any = None,  # noqa: ANN401
        stability: Stability | str = Stability.CONSISTENT,
    ) -> Decorator:
        """Declare a function of values, which gets whole Arrow arrays and returns one of the same length.

        NULLs are passed like other values. `Any` takes values of all types, `*args` any
        number. Functions of the same name are overloads.
        """

        def declare(function: F) -> F:
            scalar = functions.scalar(
                function, name=name, parameters=parameters, returns=returns, stability=stability
            )
            self.add_scalar_function(scalar, schema=schema)
            return function

        return declare

    def spark_function(
        self,
        *,
        schema: str = "",
        name: str = "",
        parameters: Mapping[str, Any] | pa.Schema | None = None,
        returns: Any = None,  # noqa: ANN401
        stability: Stability | str = Stability.CONSISTENT,
        min_rows: int = 100_000,
    ) -> Decorator:
        """Declare a function as with `scalar_function` that Spark can run too, with the same results.

        Batches of `min_rows` and more go to Spark's workers, and `query` knows the function by its
        name. The workers get the code of its module; what that imports they must find themselves.
        Over another engine it always runs in this process.
        """

        def declare(function: F) -> F:
            local = functions.scalar(
                function, name=name, parameters=parameters, returns=returns, stability=stability
            )
            scalar = OffloadedScalar(local, min_rows)
            self.add_scalar_function(scalar, schema=schema)
            self._offloaded.append(scalar)
            return function

        return declare

    def table_function(self, *, columns: Columns, schema: str = "", name: str = "") -> Decorator:
        """Declare a function of values that yields rows: Arrow data, mappings of columns, or tuples.

        Keyword-only parameters are named ones. `columns` is a schema, a mapping of names to
        types, or a function of some of the parameters that returns one. A parameter of type
        `ScanOptions` gets the columns and the filter that the client can do without, one of
        type `Call` the call.
        """

        def declare(function: F) -> F:
            self.add_table_function(functions.table_function(function, columns, name=name), schema=schema)
            return function

        return declare

    def table_in_out(self, *, columns: Columns | None = None, schema: str = "", name: str = "") -> Decorator:
        """Declare a function of a table, the last positional parameter, that yields rows.

        It takes an `Iterator[pa.RecordBatch]`, and what it yields after the last batch ends
        the result; or a `pa.RecordBatch`, and is called for each. Without `columns` the
        result has those of the input; a function in their place may name the table's
        parameter to get the schema of the input.
        """

        def declare(function: F) -> F:
            self.add_table_function(functions.in_out(function, columns, name=name), schema=schema)
            return function

        return declare

    @overload
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
    ) -> Self: ...

    @overload
    def table(self, *, columns: Columns, schema: str = "", name: str = "") -> Decorator: ...

    def table(
        self,
        name: str = "",
        data: pa.Table | Table | None = None,
        *,
        columns: Columns | None = None,
        arrow_schema: pa.Schema | None = None,
        reader: Callable[[], pa.RecordBatchReader] | None = None,
        scan: ScanFunction | None = None,
        schema: str = "",
        comment: str = "",
    ) -> Self | Decorator:
        """Add a table as `CatalogBuilder.table` does; with `columns`, decorate a function that yields rows.

        The function yields rows as for `table_function`. `columns` may be a function of a
        `SchemaRequest`: then they may depend on the time that is asked for.
        """
        if columns is None:
            return super().table(
                name,
                data,
                arrow_schema=arrow_schema,
                reader=reader,
                scan=scan,
                schema=schema,
                comment=comment,
            )

        def declare(function: F) -> F:
            self.add_table(tables.table(function, columns, name=name), schema=schema)
            return function

        return declare

    def add_reference(
        self,
        name: str,
        *calls: ClientCall,
        columns: pa.Schema | Mapping[str, Any],
        schema: str = "",
        comment: str = "",
    ) -> None:
        """Add a table that DuckDB reads by functions of its own, such as `read_parquet`, where it runs."""
        if not calls:
            raise ValueError(f"table {name!r} needs a call to refer to")
        self.add_table(tables.Reference(name, arrow_schema(columns), calls, comment), schema=schema)

    def action(self, name: str) -> Decorator:
        """Declare an action: a function of the body, or of the call and the body.

        It returns bytes, or None for no result.
        """

        def declare(function: F) -> F:
            if name in self.actions:
                raise ValueError(f"action {name!r} already exists")
            comment = (inspect.getdoc(function) or "").partition("\n")[0]
            takes_call = len(inspect.signature(function).parameters) > 1
            self.actions[name] = _PythonAction(name, comment, function, takes_call)
            return function

        return declare

    def over(self, engine: Catalog) -> Catalog:
        """Return an engine's catalog with the schemas of this app in it.

        Raises AlreadyExistsError if one of their names is taken, and ValueError for a function of
        Spark's that cannot be sent there.
        """
        for function in self._offloaded:
            function.bind(engine)
        return overlay(engine, self.build())

    def mount(self, name: str, engines: Mapping[str, Catalog] | None = None) -> None:
        """Put what was declared into the databases: over the engine of that name, or by itself."""
        mounted = {existing.lower() for existing, _ in self.catalogs.items()}
        served = {name: self.build(), **(engines or {})}
        for key, catalog in served.items():
            if key.lower() not in mounted:
                is_overlaid = key == name and engines is not None and key in engines
                self.catalogs.add(key, self.over(catalog) if is_overlaid else catalog)

    def _parts(self, schema: str) -> SchemaParts:
        if (schema or self._current).lower() == "main":
            raise ValueError("DuckDB cannot look up a schema named 'main': choose another name")
        return super()._parts(schema)
