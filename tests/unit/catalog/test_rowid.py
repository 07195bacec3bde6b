from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import rowid_field
from sparkport.catalog.rowid import is_rowid, rowid_name, with_rowid, without_rowid

ONE = pa.schema([("n", pa.int64())], metadata={"k": "v"})


def test_row_id_is_a_marked_number() -> None:
    """The mark, not the name, makes the row id."""
    field = rowid_field()

    assert (field.name, field.type, field.nullable) == ("rowid", pa.int64(), False)
    assert is_rowid(field)
    assert is_rowid(rowid_field("any name"))
    assert not is_rowid(pa.field("rowid", pa.int64()))


def test_row_id_comes_last() -> None:
    """Users' columns keep their places and the schema its metadata."""
    schema = with_rowid(ONE)

    assert schema.names == ["n", "rowid"]
    assert schema.metadata == {b"k": b"v"}
    assert rowid_name(schema) == "rowid"


@pytest.mark.parametrize(
    ("names", "free"), [(["rowid"], "_rowid"), (["RowId"], "_rowid"), (["rowid", "_ROWID"], "__rowid")]
)
def test_row_id_takes_a_free_name(names: list[str], free: str) -> None:
    """A user's column of that name, in any case, comes first."""
    schema = with_rowid(pa.schema([(name, pa.int8()) for name in names]))

    assert rowid_name(schema) == free


def test_row_id_is_taken_off_again() -> None:
    """What users see is what they made."""
    assert without_rowid(with_rowid(ONE)).equals(ONE, check_metadata=True)
    assert without_rowid(ONE) is ONE
    assert rowid_name(ONE) is None
