"""Catalogs that Spark knows by name: a Hive metastore, Unity, Iceberg, JDBC."""
