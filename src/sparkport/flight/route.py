"""One action: how to decode its body, handle it and encode the result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkport.catalog.call import Call
from sparkport.catalog.tables import Catalog
from sparkport.flight.context import ServerContext
from sparkport.flight.request import Request
from sparkport.protocol.airport import requests
from sparkport.protocol.json_dialect import requests as json_requests

V = TypeVar("V")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Route(Generic[V, R]):
    """One DoAction. `encode` returns the data of the only result, or None for no result.

    All three run within `scope`, if there is one: the transaction of the call.
    """

    description: str
    decode: Callable[[bytes], V]
    handle: Callable[[ServerContext, Request, V], R]
    encode: Callable[[Request, V, R], bytes | None]
    scope: Callable[[Call, Catalog], AbstractContextManager[None]] | None = None

    def run(self, context: ServerContext, request: Request, data: bytes) -> bytes | None:
        """Run the action and return its result."""
        if self.scope is None:
            return self._answer(context, request, data)
        with self.scope(request.call, context.catalog(request, "")):
            return self._answer(context, request, data)

    def _answer(self, context: ServerContext, request: Request, data: bytes) -> bytes | None:
        body = self.decode(data)
        request.access_log.add_path(*_names(body))
        return self.encode(request, body, self.handle(context, request, body))


def _names(body: object) -> tuple[str, ...]:
    """Return the path of the schema or table that a decoded request names."""
    match body:
        case json_requests.JsonCreateSchemaRequest(request=inner):
            return _names(inner)
        case requests.CreateSchemaRequest() | requests.DropSchemaRequest():
            return body.catalog, body.schema
        case requests.CreateTableRequest() | requests.DropTableRequest() | requests.AlterTableRequest():
            return body.catalog, body.schema, body.table
        case json_requests.DeleteRequest() | json_requests.NamedEndpointsRequest():
            return body.schema, body.table
        case _:
            return ()
