"""How staged rows are committed to a table: staging, commit queue, locks, idempotency keys."""
