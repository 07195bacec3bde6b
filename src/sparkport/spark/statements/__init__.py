"""Statements of Spark SQL: changes become the tables' own statements, definitions calls of the catalog."""
