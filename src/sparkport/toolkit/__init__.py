"""Ready-made parts for backends: static catalogs, registries, buffered statements, idempotency."""

from sparkport.toolkit.builder import CatalogBuilder
from sparkport.toolkit.registry import Catalogs, CatalogSource
from sparkport.toolkit.static import ArrowTable, ScanFunction, StaticCatalog, StaticSchema, StaticTable

__all__ = [
    "ArrowTable",
    "CatalogBuilder",
    "CatalogSource",
    "Catalogs",
    "ScanFunction",
    "StaticCatalog",
    "StaticSchema",
    "StaticTable",
]
