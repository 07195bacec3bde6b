from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparkport.spark.types import note
from sparkport.spark.types.notes import table

PAGE = Path(__file__).parents[3] / "docs/types.md"


def test_the_page_about_types_is_true() -> None:
    """The table in the documentation is what the code does."""
    assert table() in PAGE.read_text()


def test_a_note_tells_how_to_read_a_column() -> None:
    """Where a column is a number in place of a timestamp, the note says what to do with it."""
    assert note(pa.timestamp("s")) == "seconds since 1970; `timestamp_seconds(c)` makes it a timestamp"
