"""The Spark engine: Delta tables in a warehouse, read and written by Spark."""
