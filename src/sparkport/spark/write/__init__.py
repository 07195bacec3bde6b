"""INSERT, UPDATE and DELETE on Delta tables."""
