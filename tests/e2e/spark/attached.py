"""DuckDB with a server of the Spark engine attached."""

from __future__ import annotations

from tests.e2e.airport.client import DuckDB, Outcome, Rows, Step

from .lake import TOKEN, LakeServer


class Attached:
    """DuckDB with the server attached as `db`."""

    def __init__(self, duckdb: DuckDB, server: LakeServer) -> None:
        self._duckdb = duckdb
        self._setup = [
            f"CREATE SECRET (TYPE airport, auth_token '{TOKEN}', SCOPE '{server.location}')",
            f"ATTACH 'lakehouse' AS db (TYPE airport, LOCATION '{server.location}')",
        ]

    def ask(self, *steps: str | Step) -> list[Rows]:
        """Run statements that must all succeed; return the rows of each."""
        outcomes = self.attempt(*steps)
        errors = [outcome.error for outcome in outcomes]
        assert errors == [None] * len(steps), errors
        return [outcome.rows for outcome in outcomes]

    def attempt(self, *steps: str | Step) -> list[Outcome]:
        """Run statements; return what each gave."""
        return self._duckdb.run(self._setup, *steps)

    def refused(self, statement: str) -> str:
        """Run a statement that must fail; return what DuckDB says."""
        (outcome,) = self.attempt(statement)
        assert outcome.error is not None
        return outcome.error
