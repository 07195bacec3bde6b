"""The server between DuckDB and Spark."""

from sparkport.app import Server
from sparkport.catalog import CatalogBuilder
from sparkport.flight.server import ServerLimits

__all__ = ["CatalogBuilder", "Server", "ServerLimits", "__version__"]

__version__ = "0.1.0"
