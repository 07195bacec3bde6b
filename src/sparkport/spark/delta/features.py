"""Which features of Delta tables the server understands, and for what."""

from __future__ import annotations

import enum

from sparkport.spark.delta.log.actions import Protocol

CHECK_PROPERTY = "delta.constraints."
"""How the properties begin that keep the CHECKs which Delta enforces."""


class Work(enum.Flag):
    """What the server does with a table's files itself; Spark does the rest."""

    READ = enum.auto()
    APPEND = enum.auto()
    """Write a new data file."""
    APPEND_CHECKED = enum.auto()
    """Write one whose rows have passed the CHECKs of Delta's own."""
    REWRITE = enum.auto()
    """Add a column and write rows again as they are."""


_ALL = Work.READ | Work.APPEND | Work.APPEND_CHECKED | Work.REWRITE

# What a feature of writers asks of them changes nothing for readers, wherever it is listed.
_FEATURES = {
    "allowColumnDefaults": _ALL,
    "appendOnly": _ALL,
    "changeDataFeed": Work.READ | Work.REWRITE,
    "checkConstraints": Work.READ | Work.APPEND_CHECKED | Work.REWRITE,
    "clustering": Work.READ | Work.REWRITE,
    "columnMapping": _ALL,
    "deletionVectors": _ALL,
    "domainMetadata": _ALL,
    "generatedColumns": Work.READ | Work.REWRITE,
    "icebergCompatV1": Work.READ,
    "icebergCompatV2": Work.READ,
    "identityColumns": Work.READ,
    "inCommitTimestamp": _ALL,
    "inCommitTimestamp-preview": _ALL,
    "invariants": _ALL,
    "rowTracking": Work.READ,
    "timestampNtz": _ALL,
    "typeWidening": _ALL,
    "typeWidening-preview": _ALL,
    "v2Checkpoint": _ALL,
    "vacuumProtocolCheck": _ALL,
    "variantType": Work.REWRITE,
    "variantType-preview": Work.REWRITE,
}


def unsupported_features(protocol: Protocol, work: Work) -> list[str]:
    """Return the features of a table that the server does not understand for some work."""
    features = protocol.reader_features if work is Work.READ else protocol.writer_features
    return sorted(name for name in features if work not in _FEATURES.get(name, Work(0)))
