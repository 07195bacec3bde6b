"""Decide which tables may get row ids: a column for them, or ids for rows that others have added."""

from __future__ import annotations

from sparkport.spark.delta.features import Work, unsupported_features
from sparkport.spark.delta.log.actions import Metadata, Protocol

PROPERTY = "sparkport.adopt"
"""The table property that, set to `false`, forbids to add a column for the row ids."""

_NEWEST_WRITER = 7
_IDENTITY = "delta.identity.start"


def is_adoptable(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether a table without a column for the row ids may get one."""
    return metadata.configuration.get(PROPERTY, "true").lower() != "false" and can_rewrite(protocol, metadata)


def can_rewrite(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether rows of a table may be rewritten with nothing but their ids changed."""
    if metadata.configuration.get("delta.appendOnly", "false").lower() == "true":
        return False
    if any(_IDENTITY in field.metadata for field in metadata.fields):
        return False
    return protocol.min_writer <= _NEWEST_WRITER and not unsupported_features(protocol, Work.REWRITE)
