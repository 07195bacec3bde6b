"""Views: queries of Spark SQL that are kept under a name, and read like tables."""
