"""The server between DuckDB and Spark."""

from sparkport.app import App, Server
from sparkport.flight.transport.limits import ServerLimits
from sparkport.toolkit import CatalogBuilder

__all__ = ["App", "CatalogBuilder", "Server", "ServerLimits", "__version__"]

__version__ = "0.1.0"
