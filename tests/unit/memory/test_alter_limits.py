"""What ALTER TABLE ... USING may take of a server's memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, ChangeColumnType, CreateSchemaOptions, CreateTableOptions
from sparkport.catalog.budget import ByteBudget, Resources
from sparkport.errors import LimitExceededError
from sparkport.expressions import evaluation
from sparkport.memory import MemoryCatalog
from sparkport.memory.table import MemoryTable

MB = 1 << 20
LONG = ChangeColumnType("s", pa.string(), f"'{'y' * 10_000}' || s")


@pytest.fixture
def table() -> MemoryTable:
    """Return a table of two segments of rows."""
    schema = MemoryCatalog().create_schema(Call(), "s", CreateSchemaOptions())
    made = schema.create_table(
        Call(), "t", pa.schema([("n", pa.int64()), ("s", pa.string())]), CreateTableOptions()
    )
    assert isinstance(made, MemoryTable)
    for _ in range(2):
        # Long texts, because segments of few bytes are merged.
        made.insert(Call(), pa.table({"n": range(1000), "s": ["x" * 2000] * 1000}).to_reader())
    return made


@pytest.mark.parametrize("limit", [4 * MB, 18 * MB])
def test_new_values_are_counted(table: MemoryTable, limit: int) -> None:
    """Values that do not fit into what all calls may hold are refused, and the table stays as it was."""
    budget = ByteBudget(limit)
    before = table.history.newest
    with pytest.raises(LimitExceededError, match=r"^no memory is left for the rows of all calls"):
        table.alter(Call(resources=Resources(rows=budget)), LONG)

    assert table.history.newest is before
    assert budget.held == 0


def test_new_values_belong_to_the_table_afterwards(table: MemoryTable) -> None:
    """Nothing is held for a change that is done."""
    budget = ByteBudget(30 * MB)
    table.alter(Call(resources=Resources(rows=budget)), LONG)

    assert table.history.newest.state.rows.table(table.history.newest.state.arrow_schema).nbytes > 18 * MB
    assert budget.held == 0


def test_result_of_an_expression_has_a_limit(table: MemoryTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an expression gives for a batch is no larger than a message may be."""
    monkeypatch.setattr(evaluation, "_MAX_RESULT_BYTES", 5 * MB)
    before = table.history.newest
    with pytest.raises(LimitExceededError, match=r"gives more than 5 MiB$"):
        table.alter(Call(), LONG)

    assert table.history.newest is before
