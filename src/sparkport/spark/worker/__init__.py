"""What runs in Spark's Python workers; it is shipped by value and imports nothing else of the package."""
