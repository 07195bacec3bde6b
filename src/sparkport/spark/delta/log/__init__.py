"""Read the log of a Delta table."""
