from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkport.spark.delta.errors import CorruptLogError
from sparkport.spark.delta.log.checkpoints import read_checkpoint
from sparkport.spark.storage.filesystem import storage_of

NAME = f"{4:020d}.checkpoint.parquet"
_MAP = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("protocol", pa.array([5]), "column protocol is not a struct"),
        ("txn", pa.array(["x"]), "column txn is not a struct"),
        ("txn", pa.array([{"appId": "x"}]), "column txn lacks appId or version"),
        ("sidecar", pa.array([{"path": None}], pa.struct([("path", pa.string())])), "path is not a text"),
        ("protocol", pa.array([{"minReaderVersion": 1}]), "minWriterVersion is not a whole number"),
        (
            "metaData",
            pa.array(
                [{"configuration": [("a", "1"), ("a", "2")]}], pa.struct([pa.field("configuration", _MAP)])
            ),
            "duplicate field names",
        ),
    ],
)
def test_a_checkpoint_of_other_columns_is_damaged(
    tmp_path: Path, column: str, values: pa.Array, message: str
) -> None:
    """Whatever is in the file, it is the log that is damaged and no fault of the reader."""
    root = tmp_path / "orders"
    (root / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({column: values}), root / "_delta_log" / NAME)

    with pytest.raises(CorruptLogError) as raised:
        read_checkpoint(storage_of(str(root)), str(root), 4, (NAME,))

    assert message in str(raised.value)
