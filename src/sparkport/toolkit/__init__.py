"""Ready-made parts for backends: static catalogs, registries, buffered statements, idempotency."""

from sparkport.toolkit.builder import CatalogBuilder
from sparkport.toolkit.static import ScanFunction, StaticCatalog, StaticSchema, StaticTable

__all__ = ["CatalogBuilder", "ScanFunction", "StaticCatalog", "StaticSchema", "StaticTable"]
