"""Ready-made parts for backends: static catalogs, registries, buffered statements, idempotency."""
