"""The actions of a log that add a known file to a table, or remove it, as JSON."""

from __future__ import annotations

import json
import time
from typing import Any

from sparkport.spark.delta.log.actions import DataFile


def removal(file: DataFile) -> str:
    """Return the action that removes a file from the table."""
    action: dict[str, Any] = {
        "path": file.logged_path,
        "deletionTimestamp": int(time.time() * 1000),
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": dict(file.partition_values),
        "size": file.size,
    }
    if file.deletion_vector is not None:
        action["deletionVector"] = file.deletion_vector.logged
    return json.dumps({"remove": action})


def addition(file: DataFile) -> str:
    """Return the action that makes a file part of the table."""
    action: dict[str, Any] = {
        "path": file.logged_path,
        "partitionValues": dict(file.partition_values),
        "size": file.size,
        "modificationTime": file.modification_ms,
        "dataChange": True,
    }
    if file.statistics is not None:
        action["stats"] = file.statistics
    if file.deletion_vector is not None:
        action["deletionVector"] = file.deletion_vector.logged
    return json.dumps({"add": action})


def shrunk_file(file: DataFile, vector: dict[str, Any]) -> str:
    """Return the action that makes a file with another deletion vector part of the table."""
    assert file.statistics is not None
    action = json.loads(addition(file))["add"]
    # The bounds may be those of rows that are deleted.
    action["stats"] = json.dumps({**json.loads(file.statistics), "tightBounds": False})
    return json.dumps({"add": {**action, "deletionVector": vector}})
