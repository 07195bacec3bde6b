"""Write the first version of a table on the local disk, without Spark.

Only for tables as the server makes them: what Delta would have to judge is left to Delta. The first version
is the same as Delta's own, but for the names that columns have in files.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkport.spark.delta.commit.checksums import write_first_checksum
from sparkport.spark.delta.commit.log_writer import link_commit, temporary_file
from sparkport.spark.delta.log.commits import OWN_ENGINE
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields, struct_json
from sparkport.spark.delta.mapping import mapped_fields
from sparkport.spark.session.settings import CHECKPOINT_INTERVAL

_READER_FEATURES = ("columnMapping", "deletionVectors", "timestampNtz")
_WRITER_FEATURES = (*_READER_FEATURES, "appendOnly", "invariants")

# Properties that ask for the features above, with the values that do, or for nothing.
_ASKED = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.timestampNtz": "supported",
}
_HARMLESS = frozenset({"delta.dataSkippingNumIndexedCols", "delta.setTransactionRetentionDuration"})
_DEFAULTS = {"delta.checkpointInterval": CHECKPOINT_INTERVAL}

_PLAIN_TYPES = frozenset(
    {
        *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz"),
    }
)


def can_write_first_version(fields: Sequence[SparkField], properties: Mapping[str, str]) -> bool:
    """Return whether nothing about a new table has to be judged by Delta."""
    asks = {key: value for key, value in properties.items() if key.startswith("delta.")}
    if any(asks.get(key) != value for key, value in _ASKED.items()):
        return False
    return asks.keys() <= _ASKED.keys() | _HARMLESS and _are_plain(fields)


def write_first_version(
    root: str,
    fields: Sequence[SparkField],
    comment: str,
    properties: Mapping[str, str],
    partition_columns: Sequence[str] = (),
) -> bool:
    """Write the first version of a table to a folder that has nothing in it; return whether it was written.

    It was not if somebody else has made a table there meanwhile. The commit is on the disk then, but for its
    name in the log's folder. Raises OSError, and SparkRequiredError where there are no hard links.
    """
    mapped, last_number = mapped_fields(fields, lambda _: f"col-{uuid.uuid4()}")
    configuration = {key: value for key, value in properties.items() if not key.startswith("delta.feature.")}
    configuration |= _DEFAULTS | {"delta.columnMapping.maxColumnId": str(last_number)}
    now, txn_id = int(time.time() * 1000), str(uuid.uuid4())
    metadata = {
        "id": str(uuid.uuid4()),
        **({"description": comment} if comment else {}),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _compact(struct_json(mapped)),
        "partitionColumns": list(partition_columns),
        "configuration": configuration,
        "createdTime": now,
    }
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(_READER_FEATURES),
        "writerFeatures": list(_WRITER_FEATURES),
    }
    parameters = {
        "partitionBy": _compact(list(partition_columns)),
        "clusterBy": "[]",
        "description": comment or None,
        "isManaged": "false",
        "properties": _compact(configuration),
    }
    info = {
        "timestamp": now,
        "operation": "CREATE TABLE",
        "operationParameters": parameters,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {},
        "engineInfo": OWN_ENGINE,
        "txnId": txn_id,
    }
    actions = [{"commitInfo": info}, {"metaData": metadata}, {"protocol": protocol}]
    data = "".join(f"{_compact(action)}\n" for action in actions).encode()
    with _new_folder(Path(root)), temporary_file(root, 0, data) as file:
        is_written = link_commit(file, root, 0)
    if is_written:
        write_first_checksum(root, metadata, protocol, txn_id)
    return is_written


def _compact(value: object) -> str:
    """Return a value as Delta writes JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@contextlib.contextmanager
def _new_folder(root: Path) -> Iterator[None]:
    """Make the folders of a table, and remove them again if the block fails and has left nothing there."""
    log = root / "_delta_log"
    try:
        log.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in (log, root):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _are_plain(fields: Sequence[SparkField], *, is_nested: bool = False) -> bool:
    """Return whether Delta takes columns, or fields of a struct, without a condition."""
    names = {field.name.lower() for field in fields}
    return (
        0 < len(fields) == len(names)
        and not (is_nested and any(not field.nullable for field in fields))
        and all(_is_known(field.metadata) and _is_plain(field.type) for field in fields)
    )


def _is_known(metadata: Mapping[str, Any]) -> bool:
    return all(key == "comment" or key.startswith("sparkport.") for key in metadata)


def _is_plain(spark_type: SparkType) -> bool:
    match spark_type:
        case str():
            return spark_type.partition("(")[0] in _PLAIN_TYPES
        case {"type": "struct"}:
            return _are_plain(struct_fields(spark_type), is_nested=True)
        case {"type": "array", "elementType": element}:
            return _is_plain(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return _is_plain(key) and _is_plain(value)
        case _:
            return False
