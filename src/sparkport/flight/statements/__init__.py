"""Statements in SQL, prepared or not: what their handlers share."""
