"""What the checks of an INSERT keep of its rows."""

from __future__ import annotations

import pyarrow as pa

from sparkport.catalog import Call
from sparkport.catalog.tables import TableConstraints
from sparkport.spark.write.constraint_checks import RowChecks


def test_kept_keys_do_not_keep_their_message() -> None:
    """All columns of a message share its memory, so that the columns of keys are copied out of it."""
    rows = pa.record_batch({"id": range(100), "payload": ["x" * 1000] * 100})
    message = rows.serialize()
    received = pa.ipc.read_record_batch(message, rows.schema)
    checks = RowChecks(Call(), "t", TableConstraints(primary_key=("id",)))
    checks.add(received)
    (kept,) = checks._kept
    addresses = [buffer.address for column in kept.columns for buffer in column.buffers() if buffer]

    assert kept.equals(rows.select(["id"]))
    assert not any(message.address <= address < message.address + message.size for address in addresses)
