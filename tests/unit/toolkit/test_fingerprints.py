"""The fingerprint of a statement."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.toolkit.fingerprints import FINGERPRINT_BITS, Fingerprint

ROWS = pa.table(
    {
        "n": pa.array([None if at % 7 == 0 else at for at in range(200_000)], pa.int64()),
        "s": pa.array([f"text {at % 100}" for at in range(200_000)]),
        "l": pa.array([[at, None] for at in range(200_000)], pa.list_(pa.int32())),
        "d": pa.array([f"word {at % 10}" for at in range(200_000)]).dictionary_encode(),
        "b": pa.array([None if at % 3 == 0 else at % 2 == 0 for at in range(200_000)]),
        "m": pa.array(
            [[("a", at)] if at % 5 else None for at in range(200_000)], pa.map_(pa.string(), pa.int64())
        ),
        "st": pa.array([{"x": at, "y": None} if at % 4 else None for at in range(200_000)]),
        "f": pa.array([b"ab"] * 200_000, pa.binary(2)),
        "z": pa.nulls(200_000),
    }
)


def fingerprint(rows: pa.Table, size: int = 65_536, principal: str = "ada", operation: str = "INSERT") -> int:
    """Return the fingerprint of rows that come in batches of a size."""
    made = Fingerprint(principal, operation)
    for batch in rows.to_batches(max_chunksize=size):
        made.add(batch)
    return made.value()


@pytest.mark.parametrize("size", [1, 999, 4096, 65_536, 131_072, 200_000])
def test_batches_make_no_difference(size: int) -> None:
    """However the rows are cut, and whatever they were cut from."""
    rows = ROWS if size > 1 else ROWS.slice(0, 3000)
    offset = pa.concat_tables([ROWS.slice(0, 5), rows]).slice(5)

    assert fingerprint(rows, size) == fingerprint(rows) == fingerprint(offset, size)


def test_everything_else_makes_one() -> None:
    """Another caller, operation, row, order or column is another statement."""
    rows = ROWS.slice(0, 1000)
    others = [
        fingerprint(rows, principal="grace"),
        fingerprint(rows, operation="DELETE"),
        fingerprint(rows.slice(1)),
        fingerprint(rows.slice(0, 0)),
        fingerprint(pa.concat_tables([rows.slice(500), rows.slice(0, 500)])),
        fingerprint(rows.rename_columns([*rows.column_names[:-1], "other"])),
        fingerprint(rows.drop_columns(["s"])),
    ]

    assert len({fingerprint(rows), *others}) == 8
    assert all(0 < value < 1 << FINGERPRINT_BITS for value in others)


def test_texts_do_not_run_into_each_other() -> None:
    """Who and what are told apart, whatever letters they have."""
    assert Fingerprint("a", "bc").value() != Fingerprint("ab", "c").value()
