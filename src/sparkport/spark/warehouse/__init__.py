"""A warehouse of Delta tables: its listing, the snapshots of transactions, its trash, and its servers."""
