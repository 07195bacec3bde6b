"""What writers leave behind is distinguished from files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkport.spark.ddl.remnants import is_remnant

UUID = "0b6f3f0e-7d3c-4a53-8a58-1f5a6c1b2d3e"


def put(folder: Path, path: str) -> None:
    """Make a file, or a folder if the path ends in a slash."""
    target = folder / path
    if path.endswith("/"):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/",
        "_delta_log/_staged_commits/",
        f"_delta_log/{7:020}.crc",
        f"_delta_log/.{7:020}.crc.{UUID}.tmp",
        f"_delta_log/.{7:020}.json.{UUID}.tmp",
        f"_delta_log/..{7:020}.json.{UUID}.tmp.crc",
        f"_delta_log/.{7:020}.json.crc",
        f"_delta_log/.{7:020}.checkpoint.parquet.crc",
        f"_delta_log/._last_checkpoint.{UUID}.tmp",
        "_delta_log/_last_checkpoint",
        "_sparkport/rowids/3",
        f"_sparkport/rowids/{UUID}/3",
        f"_sparkport/rowids/{UUID}/",
        f"deletion_vector_{UUID}.bin",
        f"ab/deletion_vector_{UUID}.bin",
        f".part-00000-{UUID}-c000.snappy.parquet.crc",
    ],
)
def test_what_delta_and_the_server_leave_is_a_remnant(tmp_path: Path, path: str) -> None:
    """None of it is a version of a table, and nobody else names files so."""
    put(tmp_path / "t", path)

    assert is_remnant(str(tmp_path / "t"))


@pytest.mark.parametrize(
    "path",
    [
        f"_delta_log/{7:020}.json",
        f"_delta_log/{7:020}.checkpoint.parquet",
        f"_delta_log/{7:020}.{9:020}.compacted.json",
        "_delta_log/.gitkeep",
        "_delta_log/notes.crc",
        "_delta_log/mine/",
        f"_delta_log/mine/{7:020}.crc",
        "_sparkport/mine",
        f"part-00000-{UUID}-c000.snappy.parquet",  # with nothing in it that could tell whose it is
        "part-0.parquet",
        "_SUCCESS",
        ".hidden",
        "empty/",
        "x.crc",
    ],
)
def test_anything_else_keeps_a_folder(tmp_path: Path, path: str) -> None:
    """One file that is not known is enough, whatever lies beside it."""
    put(tmp_path / "t", f"_delta_log/{8:020}.crc")
    put(tmp_path / "t", path)

    assert not is_remnant(str(tmp_path / "t"))


def test_folder_without_anything_and_links_are_no_remnants(tmp_path: Path) -> None:
    """There is nothing to clear in the one, and the other is somebody's choice."""
    (tmp_path / "empty").mkdir()
    put(tmp_path / "left", f"_delta_log/{7:020}.crc")
    (tmp_path / "link").symlink_to(tmp_path / "left")

    assert not is_remnant(str(tmp_path / "empty"))
    assert not is_remnant(str(tmp_path / "missing"))
    assert not is_remnant(str(tmp_path / "link"))
