"""Folders that a server makes for as long as it runs."""

from __future__ import annotations

import threading
from pathlib import Path

from sparkport.spark.leftovers import discard


def test_nothing_is_left_of_a_folder_that_is_written_to(tmp_path: Path) -> None:
    """A task that has not heard yet that nobody reads its rows cannot keep the folder."""
    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        begun = threading.Event()

        def write(folder: Path = folder, begun: threading.Event = begun) -> None:
            for file in range(100_000):
                try:
                    (folder / str(file)).touch()
                except FileNotFoundError:
                    return
                begun.set()

        writing = threading.Thread(target=write)
        writing.start()
        begun.wait()
        discard(folder)
        writing.join()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    """Whoever cleans up temporary folders may have been there before."""
    discard(tmp_path / "gone")

    assert list(tmp_path.iterdir()) == []
