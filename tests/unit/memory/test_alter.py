from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import AddColumn, Call, CreateSchemaOptions, CreateTableOptions
from sparkport.errors import LimitExceededError
from sparkport.memory import MemoryCatalog


def test_default_that_would_fill_the_memory_is_refused() -> None:
    """Every row gets a copy of the default, so that a long one times many rows has a limit."""
    schema = MemoryCatalog().create_schema(Call(), "s", CreateSchemaOptions())
    table = schema.create_table(Call(), "t", pa.schema([("n", pa.int64())]), CreateTableOptions())
    table.insert(Call(), pa.table({"n": range(100_000)}).to_reader())
    long = pa.field("c", pa.string(), metadata={"default": f"'{'x' * 15_000}'"})

    with pytest.raises(
        LimitExceededError,
        match=r"^the default of the new column would need more than 1024 MiB in table 't'$",
    ):
        table.alter(Call(), AddColumn(long))
    assert table.arrow_schema.names == ["n", "rowid"]
