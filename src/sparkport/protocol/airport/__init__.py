"""The Airport dialect: what DuckDB's extension sends, and what it reads."""
