"""The function query: Spark SQL of clients, checked by its plan and run by a Spark of its own."""
