"""Metadata of Arrow schemas in a property of Delta tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.model.arrow_metadata import METADATA_KEY, arrow_metadata, metadata_properties


def described(properties: dict[str, str], comment: str | None = None) -> Metadata:
    """Return a table with properties and a comment."""
    return Metadata("id", None, comment, (), configuration=properties)


@given(st.dictionaries(st.binary(), st.binary(), min_size=1))
def test_any_bytes_come_back(metadata: dict[bytes, bytes]) -> None:
    """The property is plain text, whatever is in it."""
    properties = metadata_properties(metadata, "")

    assert properties[METADATA_KEY].isascii()
    assert arrow_metadata(described(properties)) == metadata


def test_text_can_be_read_in_the_property() -> None:
    """What others see of it is JSON; no metadata is no property."""
    assert metadata_properties({b"owner": b"ann"}, "") == {"sparkport.metadata": '{"owner": "ann"}'}
    assert metadata_properties(None, "a comment") == {}
    assert metadata_properties({}, "") == {}
    assert arrow_metadata(described({}, "a comment")) is None


def test_comment_is_that_of_the_table() -> None:
    """The table's comment is kept once: a later one is shown, and another text of that key is itself."""
    comment = metadata_properties({b"comment": b"old", b"owner": b"ann"}, "old")
    other = metadata_properties({b"comment": b"another"}, "old")

    assert comment == {"sparkport.metadata": '{"comment": null, "owner": "ann"}'}
    assert arrow_metadata(described(comment, "new")) == {b"comment": b"new", b"owner": b"ann"}
    assert arrow_metadata(described(comment)) == {b"owner": b"ann"}
    assert arrow_metadata(described(other, "old")) == {b"comment": b"another"}


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', '{"a": 1}', '{"\\ud800": "x"}', "{}"])
def test_what_others_have_spoilt_is_no_metadata(text: str) -> None:
    """A property that is not as it was written does not keep the table from being read."""
    assert arrow_metadata(described({METADATA_KEY: text})) is None
