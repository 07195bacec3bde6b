from __future__ import annotations

import pytest

from sparkport.spark.storage.filesystem import is_local, location_of


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("/lake/sales.db/orders", True),
        ("file:/lake/orders/", True),
        ("file:///lake/orders", True),
        ("s3://bucket/lake/orders", False),
        ("s3a://bucket/lake/orders/", False),
        ("abfss://box@account.example/lake", False),
    ],
)
def test_only_paths_of_the_local_disk_are_local(root: str, expected: bool) -> None:
    """A `file:` URI becomes a path; everything else with a scheme is a store."""
    assert is_local(location_of(root)) is expected
