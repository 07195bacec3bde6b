"""The metadata of a table's Arrow schema, kept in a property of the Delta table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sparkport.spark.delta.log.actions import Metadata

METADATA_KEY = "sparkport.metadata"
"""The table property that keeps, as JSON, the schema metadata of CREATE TABLE."""
_COMMENT = b"comment"
# Bytes that are not UTF-8 become lone surrogates, which valid text does not contain.
_BYTES = "surrogateescape"


def metadata_properties(arrow_metadata: Mapping[bytes, bytes] | None, comment: str) -> dict[str, str]:
    """Return the table properties that keep the metadata; none if there is none.

    The table's comment is null in it: Delta keeps the comment itself.
    """
    if not arrow_metadata:
        return {}
    texts = {
        key.decode(errors=_BYTES): None if _is_comment(key, value, comment) else value.decode(errors=_BYTES)
        for key, value in arrow_metadata.items()
    }
    # In SQL, which is used over Spark Connect, Spark substitutes settings for `${...}`.
    return {METADATA_KEY: json.dumps(texts).replace("$", "\\u0024")}


def arrow_metadata(metadata: Metadata) -> dict[bytes, bytes] | None:
    """Return the metadata of the Arrow schema of a table; None if there is none or it is not valid."""
    text = metadata.configuration.get(METADATA_KEY)
    if text is None:
        return None
    try:
        texts = json.loads(text)
        pairs = {key: metadata.description if value is None else value for key, value in texts.items()}
        decoded = {
            key.encode(errors=_BYTES): value.encode(errors=_BYTES)
            for key, value in pairs.items()
            if value is not None
        }
    except (ValueError, AttributeError):
        return None
    return decoded or None


def _is_comment(key: bytes, value: bytes, comment: str) -> bool:
    return key == _COMMENT and bool(comment) and value == comment.encode()
