"""The server's model of a Delta table: columns, constraints, schema evolution."""
