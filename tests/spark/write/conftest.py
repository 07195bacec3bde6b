"""A catalog to write to, with a schema of its own for each test, and what it has written through."""

from __future__ import annotations

import os

import pytest

from tests.spark.ddl.conftest import catalog, schema

from .disk import Identity, identity

__all__ = ["catalog", "schema"]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Identity]:
    """Return the files and folders that are written through to the disk, as they are."""
    found: set[Identity] = set()
    write_through = os.fsync

    def noted(file: int) -> None:
        write_through(file)
        found.add(identity(os.fstat(file)))

    monkeypatch.setattr(os, "fsync", noted)
    return found
