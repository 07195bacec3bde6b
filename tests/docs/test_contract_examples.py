"""The examples of docs/contract.md run, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import sparkport
from sparkport.flight.routes import DESCRIPTIONS
from tests.conftest import TOKEN

DOCUMENT = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[int, str, str | None]]:
    """Return every example with its line and the output that stands below it."""
    found: list[tuple[int, str, str | None]] = []
    for block in BLOCK.finditer(DOCUMENT):
        kind, text = block.groups()
        line = DOCUMENT.count("\n", 0, block.start(2))
        if kind == "python":
            found.append((line, text, None))
        else:
            assert kind == "output"
            start, code, nothing = found.pop()
            assert nothing is None
            found.append((start, code, text))
    return found


def test_every_example_prints_what_it_says(server: sparkport.Server) -> None:
    """All examples run in order against an empty server and print exactly what the page shows."""
    printed: list[str] = []
    names: dict[str, object] = {
        "LOCATION": server.location,
        "TOKEN": TOKEN,
        # Not by redirecting the standard output, to which the server's log may go.
        "print": lambda *values: printed.append(" ".join(map(str, values)) + "\n"),
    }
    found = examples()
    assert len(found) > 15
    for line, code, output in found:
        printed.clear()
        exec(compile("\n" * line + code, "contract.md", "exec"), names)

        assert "".join(printed) == (output or ""), f"line {line}"
    close = getattr(names["channel"], "close", None)
    assert close is not None
    close()


def test_every_action_has_its_place() -> None:
    """Each action of the dialect has a heading of its own or shares one."""
    headings = " ".join(re.findall(r"^### (.*)$", DOCUMENT, re.MULTILINE))
    spoken = [name for name in DESCRIPTIONS if name[0].isupper() or "transaction" in name or name == "delete"]

    assert len(spoken) == 15
    for name in [*spoken, "endpoints", "table_function_flight_info"]:
        assert name.lower() in headings.lower(), name
