"""The warehouse as a catalog of schemas and tables."""
