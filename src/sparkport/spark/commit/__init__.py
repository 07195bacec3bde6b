"""From rows on their way in to a commit of the table: staging, queues, locks, idempotency keys."""
