"""Beginning transactions."""

from __future__ import annotations

from sparkport.catalog.transactions import TransactionalCatalog
from sparkport.flight.request import Request
from sparkport.flight.site import Site
from sparkport.protocol.requests import CatalogRequest


def create_transaction(site: Site, request: Request, wanted: CatalogRequest) -> str | None:
    """Begin a transaction; None where the catalog has none."""
    catalog = site.catalog(wanted.catalog)
    if not isinstance(catalog, TransactionalCatalog):
        return None
    return catalog.transactions.begin_transaction(request.call)
