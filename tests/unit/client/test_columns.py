"""Columns as objects: what the client says is what the server reads."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sparkport.catalog.rowid import rowid_field
from sparkport.client.columns import describe, describe_schema
from sparkport.errors import InvalidRequestError
from sparkport.protocol.json_dialect import requests as json_requests

TYPES = [
    pa.int64(),
    pa.string_view(),
    pa.timestamp("ns", "Europe/Paris"),
    pa.decimal256(40, 3),
    pa.binary(16),
    pa.uuid(),
    pa.list_(pa.field("x, y", pa.int8(), nullable=False)),
    pa.large_list(pa.string()),
    pa.list_(pa.float32(), 3),
    pa.struct(
        [("a: b", pa.int64()), pa.field("<>", pa.list_(pa.struct([("'", pa.int8())])), nullable=False)]
    ),
    pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    pa.dictionary(pa.int16(), pa.string()),
    pa.dictionary(pa.int16(), pa.string(), ordered=True),
    pa.sparse_union([pa.field("a", pa.int64()), pa.field("b c", pa.string())]),
    pa.dense_union([pa.field("a", pa.int64()), pa.field("b", pa.string())], [5, 7]),
]


def read_back(arrow_schema: pa.Schema) -> pa.Schema:
    """Return what the server makes of a described schema."""
    body = {"schema_name": "s", "table_name": "t", "schema": describe_schema(arrow_schema)}
    return json_requests.create_table(json.dumps(body).encode()).arrow_schema


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("nullable", [True, False])
def test_every_type_is_read_back(kind: pa.DataType, nullable: bool) -> None:
    """A described column is read as the very same column, whatever its children are called."""
    arrow_schema = pa.schema([pa.field("odd: name", kind, nullable)], {"k": "v"})

    assert read_back(arrow_schema).equals(arrow_schema, check_metadata=True)


def test_plain_column_is_a_word() -> None:
    """A column without children has none to tell."""
    assert describe(pa.field("n", pa.int64(), nullable=False)) == {
        "name": "n",
        "nullable": False,
        "type": "int64",
    }


def test_geometry_keeps_its_reference_system() -> None:
    """A WKB column is described as a geometry, with its srid and kind in the schema's metadata."""
    metadata = {
        "ARROW:extension:name": "geoarrow.wkb",
        "ARROW:extension:metadata": '{"crs": "EPSG:4326", "crs_type": "authority_code"}',
        "srid": "4326",
        "geometry_type": "POINT",
    }
    field = pa.field("loc", pa.binary(), metadata=metadata)
    made = read_back(pa.schema([field]))

    assert describe(field)["type"] == "extension<airport.geometry>"
    assert made.field("loc").equals(field, check_metadata=True)
    assert made.metadata == {b"loc.srid": b"4326", b"loc.geometry_type": b"POINT"}


def test_row_id_is_left_to_the_server() -> None:
    """The columns of an existing table can be used for a new one as they are."""
    arrow_schema = pa.schema([("n", pa.int64()), rowid_field()])

    assert read_back(arrow_schema).names == ["n"]


def test_metadata_that_is_no_text_is_refused() -> None:
    """JSON carries text only."""
    with pytest.raises(InvalidRequestError, match=r"^the metadata of a schema is text$"):
        describe_schema(pa.schema([("n", pa.int64())], {b"k": b"\xff"}))
