"""DuckDB's SQL over the tables of any catalog; changes of rows go through the catalog's own statements."""

from sparkport.sql.catalog_sql import CatalogSql

__all__ = ["CatalogSql"]
