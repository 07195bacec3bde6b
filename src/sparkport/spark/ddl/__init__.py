"""CREATE, ALTER and DROP of tables and schemas."""
