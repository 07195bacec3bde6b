"""Prepared statements belong to their caller, and are bounded in number."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import SqlDescription, SqlStatement
from sparkport.errors import NotFoundError
from sparkport.flight.prepared_statements import PreparedStatement, PreparedStatements

PREPARED = PreparedStatement(SqlStatement("SELECT 1", "db1"), None, SqlDescription(None, pa.schema([])))


def test_another_caller_does_not_find_a_statement() -> None:
    """A handle is of use to its caller only, and can be closed by him only."""
    statements = PreparedStatements()
    handle = statements.add("ada", PREPARED)
    statements.close("eve", handle)

    assert statements.get("ada", handle) == PREPARED
    for attempt in (statements.get, lambda who, what: statements.bind(who, what, None)):
        with pytest.raises(NotFoundError):
            attempt("eve", handle)


def test_too_many_statements_close_the_oldest() -> None:
    """A caller who never closes anything takes no more than his share."""
    statements = PreparedStatements()
    other = statements.add("eve", PREPARED)
    first, *rest = [statements.add("ada", PREPARED) for _ in range(1001)]

    with pytest.raises(NotFoundError):
        statements.get("ada", first)
    assert statements.get("ada", rest[0]) == PREPARED
    assert statements.get("eve", other) == PREPARED
