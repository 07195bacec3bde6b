"""The metadata of a table's Arrow schema: a property of the Delta table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sparkport.spark.delta.actions import Metadata

METADATA_KEY = "sparkport.metadata"
"""The table property that keeps, as JSON, what CREATE TABLE says beside the columns."""
_COMMENT = b"comment"
# Bytes that are no text are kept as the halves of characters, which no text has.
_BYTES = "surrogateescape"


def packed_metadata(arrow_metadata: Mapping[bytes, bytes] | None, comment: str) -> dict[str, str]:
    """Return the properties that keep the metadata; none if there is none.

    The table's comment is null among it: it is kept in one place only.
    """
    if not arrow_metadata:
        return {}
    texts = {
        key.decode(errors=_BYTES): None if _is_comment(key, value, comment) else value.decode(errors=_BYTES)
        for key, value in arrow_metadata.items()
    }
    # In SQL, which says it over Spark Connect, Spark puts settings in the place of `${...}`.
    return {METADATA_KEY: json.dumps(texts).replace("$", "\\u0024")}


def arrow_metadata(metadata: Metadata) -> dict[bytes, bytes] | None:
    """Return the metadata of the Arrow schema of a table; None if there is none, or others have spoilt it."""
    text = metadata.configuration.get(METADATA_KEY)
    if text is None:
        return None
    try:
        texts = json.loads(text)
        pairs = {key: metadata.description if value is None else value for key, value in texts.items()}
        found = {
            key.encode(errors=_BYTES): value.encode(errors=_BYTES)
            for key, value in pairs.items()
            if value is not None
        }
    except (ValueError, AttributeError):
        return None
    return found or None


def _is_comment(key: bytes, value: bytes, comment: str) -> bool:
    return key == _COMMENT and bool(comment) and value == comment.encode()
