"""DDL through Spark Connect, which has no Delta transactions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).with_name("connect_client.py")


def test_what_sql_can_say_is_done_and_the_rest_refused(connect_server: str, tmp_path: Path) -> None:
    """A change is one commit there too, constraints and keys hold; what cannot be made leaves everything."""
    done = subprocess.run(
        [sys.executable, str(_CLIENT), connect_server, str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    unsupported = "table 't' does not support this change ({}) over Spark Connect"

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "commits": 6,
        "type": "uint8",
        "comment": "small",
        "refused": [unsupported.format(name) for name in ("SetDefault", "ChangeColumnType", "RenameColumn")],
        "inserted": [
            "UNIQUE constraint of table 't' failed in column 'b': b='x'",
            (
                "CHECK (b <> 'it''s \\') constraint of table 't' failed:"
                ' the `key`=NULL, b="it\'s \\\\", u=255'
            ),
            "inserted",
        ],
        "rows": [
            {"the `key`": 1, "b": "x", "u": None},
            {"the `key`": None, "b": "z", "u": 255},
        ],
        "repeated": {"counts": [3, 3, 1, 1, 1, 1], "commits": 3, "rows": [3, 10]},
        "replaced": ["it's new", ["c > 0"], ["c", "rowid"]],
    }
