"""Scans of Delta tables: by Arrow in Spark's tasks, by Spark SQL, or from the log alone."""
