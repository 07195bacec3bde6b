"""The server between DuckDB and Spark."""

from sparkport.app import Server
from sparkport.catalog import CatalogBuilder

__all__ = ["CatalogBuilder", "Server", "__version__"]

__version__ = "0.1.0"
