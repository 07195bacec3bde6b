"""The catalog listing that DuckDB reads when it attaches."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparkport.catalog.tables import CatalogVersion
from sparkport.protocol import msgpack

_ZSTD = pa.Codec("zstd")


@dataclass(frozen=True, slots=True)
class SchemaListing:
    """A schema with the FlightInfo messages of everything in it."""

    name: str
    comment: str
    flights: Sequence[bytes]
    tags: Mapping[str, str] = field(default_factory=dict)
    is_default: bool = False


def encode(schemas: Sequence[SchemaListing], version: CatalogVersion) -> bytes:
    """Return the answer to `list_schemas`."""
    root = {
        "contents": {"sha256": "", "url": None, "serialized": None},
        "schemas": [
            {
                "name": schema.name,
                "description": schema.comment,
                "tags": dict(schema.tags),
                "contents": contents(schema.flights),
                "is_default": schema.is_default or None,
            }
            for schema in schemas
        ],
        "version_info": version_info(version),
    }
    return compress(msgpack.encode(root))


def contents(flights: Sequence[bytes]) -> dict[str, object]:
    """Return the contents object of a schema, inline and with its hash."""
    serialized = compress(msgpack.encode(list(flights)))
    return {
        "sha256": hashlib.sha256(serialized).hexdigest(),
        "url": None,
        "serialized": serialized,
    }


def version_info(version: CatalogVersion) -> dict[str, object]:
    """Return the version map."""
    return {"catalog_version": version.version, "is_fixed": version.is_fixed}


def compress(payload: bytes) -> bytes:
    """Return the pair of uncompressed length and zstd data."""
    return msgpack.encode([len(payload), _ZSTD.compress(payload, asbytes=True)])
