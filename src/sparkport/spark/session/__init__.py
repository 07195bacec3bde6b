"""The Spark session: Java, its process, its settings and its jobs."""
