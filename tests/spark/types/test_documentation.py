from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparkport.spark.types.documentation import describe, markdown_table

PAGE = Path(__file__).parents[3] / "docs/types.md"


def test_the_page_about_types_is_true() -> None:
    """The table in the documentation is what the code does."""
    assert markdown_table() in PAGE.read_text()


def test_a_description_says_how_to_read_a_column() -> None:
    """Where a column is a number in place of a timestamp, the description says what to do with it."""
    assert describe(pa.timestamp("s")) == "seconds since 1970; `timestamp_seconds(c)` makes it a timestamp"
