"""The code blocks of README and docs, and which of them cannot be run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SPARK = "starts Spark and blocks; tests/e2e/spark/test_python_server.py does the same"
NETWORK = "installs dependencies from the network, or runs all tests"
NOT_RUN = {
    ("README.md", "make serve     # Spark and Delta"): NETWORK,
    ("README.md", 'sparkport.Server(sparkport.Lakehouse("./lakehouse")).serve()'): SPARK,
    ("README.md", "def shout(words: Texts)"): "an excerpt of examples/functions.py, compared word for word",
    ("CONTRIBUTING.md", "make setup"): NETWORK,
    ("docs/clients.md", 'spark.read.format("jdbc")'): "needs a driver on Spark's class path; tried by hand",
    ("docs/python-server.md", 'sparkport.Server(sparkport.Lakehouse("./lakehouse")).serve()'): SPARK,
    ("docs/security.md", "sparkport certificate "): "starts no server; tests/e2e/test_tls.py runs it",
    ("docs/security.md", "sparkport token create "): "starts no server; tests/e2e/test_tokens.py runs it",
    ("docs/security.md", "sparkport user create "): "starts no server; tests/e2e/test_users.py runs it",
    ("docs/tutorial.md", "make serve\n"): NETWORK,
}
"""Blocks in Python or shell that are not run, by page and a part of their text, with the reason.

SQL needs DuckDB with the Airport extension: it is parsed, and `tests/e2e/airport` runs such statements.
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block with the line before it, and the output that stands below it."""

    page: str
    line: int
    language: str
    text: str
    output: str | None = None

    @property
    def reason(self) -> str | None:
        """Why it is not run, None if it is."""
        return next(
            (why for (page, part), why in NOT_RUN.items() if page == self.page and part in self.text), None
        )


def name(path: Path) -> str:
    """Return the path of a page in the repository."""
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[Block]:
    """Return all blocks of a page but outputs, which belong to the block before them."""
    return list(_blocks(name(path), path.read_text(encoding="utf-8")))


def _blocks(page: str, document: str) -> Iterator[Block]:
    last: Block | None = None
    for match in _BLOCK.finditer(document):
        language, text = match.groups()
        line = document.count("\n", 0, match.start(2))
        if language == "output":
            assert last is not None, f"{page}:{line}: an output without code"
            assert last.language == "python", f"{page}:{line}: an output without code"
            yield Block(last.page, last.line, last.language, last.text, text)
            last = None
            continue
        if last is not None:
            yield last
        last = Block(page, line, language, text)
    if last is not None:
        yield last
