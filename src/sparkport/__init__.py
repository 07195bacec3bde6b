"""The server between DuckDB and Spark."""

from sparkport.app import App, Server
from sparkport.catalog import CatalogBuilder
from sparkport.flight.transport.limits import ServerLimits

__all__ = ["App", "CatalogBuilder", "Server", "ServerLimits", "__version__"]

__version__ = "0.1.0"
