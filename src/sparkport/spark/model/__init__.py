"""What a Delta table is to the server: columns, constraints, schema."""
