"""A folder of Delta tables: what is in it, as of when, and who uses it."""
