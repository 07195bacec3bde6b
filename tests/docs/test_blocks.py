"""Every code block of README and docs that can run is run, and prints what stands below it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import sparkport
from sparkport.access.checks import checked_rules
from sparkport.app.sample import load_sample
from sparkport.memory import MemoryCatalog
from tests.conftest import TOKEN

from .blocks import NOT_RUN, PAGES, ROOT, Block, blocks, name

ALL = [block for page in PAGES for block in blocks(page)]
LANGUAGES = {"", "python", "sh", "sql", "toml"}
_LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)")


def of(language: str) -> list[Block]:
    """Return the blocks of a language."""
    return [block for block in ALL if block.language == language]


def names(found: list[Block]) -> list[str]:
    """Return the names of blocks in a report."""
    return [f"{block.page}:{block.line}" for block in found]


@contextmanager
def serving(page: str) -> Iterator[str]:
    """Serve what a page starts from: the sample, or nothing for the page of the JSON dialect."""
    catalog = MemoryCatalog()
    if page != "docs/json-dialect.md":
        load_sample(catalog)
    with sparkport.Server({"lakehouse": catalog}, port=0, token=TOKEN, grace_seconds=0.2) as server:
        yield server.location


@pytest.mark.parametrize("page", sorted({block.page for block in of("python")}))
def test_python_prints_what_it_says(page: str) -> None:
    """The blocks of a page run in order in one namespace and print exactly what the page shows."""
    printed: list[str] = []
    with serving(page) as location:
        namespace: dict[str, object] = {
            "LOCATION": location,
            "TOKEN": TOKEN,
            # Not by redirecting the standard output, to which the server's log may go.
            "print": lambda *values: printed.append(" ".join(map(str, values)) + "\n"),
        }
        for block in of("python"):
            if block.page != page or block.reason is not None:
                continue
            code = block.text.replace("127.0.0.1:8815", location.removeprefix("grpc://"))
            code = code.replace('token="..."', f'token="{TOKEN}"')
            printed.clear()
            exec(compile("\n" * block.line + code, page, "exec"), namespace)

            assert "".join(printed) == (block.output or ""), f"{page}, line {block.line}"
        close = getattr(namespace.get("channel"), "close", None)
        if close is not None:
            close()


@pytest.mark.parametrize("block", found := [b for b in of("sh") if b.reason is None], ids=names(found))
def test_commands_start_a_server(block: Block, tmp_path: Path) -> None:
    """A command that serves gets ready, and ends when it is told to."""
    for line in block.text.splitlines():
        words = shlex.split(line)
        assert words[0].endswith("sparkport"), line
        with subprocess.Popen(
            [sys.executable, "-m", "sparkport", *words[1:]],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.terminate()
            process.communicate(timeout=30)

        assert first.startswith("sparkport ready at grpc://127.0.0.1:")
        assert process.returncode == 0


@pytest.mark.parametrize("block", of("sql"), ids=names(of("sql")))
def test_sql_is_what_duckdb_parses(block: Block) -> None:
    """Statements, also those of a session with its prompts, are such as DuckDB understands."""
    text = block.text
    if text.startswith("D "):
        lines = [line for line in text.splitlines() if line.startswith(("D ", "  "))]
        text = "\n".join(line[2:] for line in lines)
    with duckdb.connect() as connection:
        statements = connection.extract_statements(text)

    assert statements


@pytest.mark.parametrize("block", of("toml"), ids=names(of("toml")))
def test_access_files_are_valid(block: Block, tmp_path: Path) -> None:
    """A file that says who may do what is one that a server takes."""
    file = tmp_path / "access.toml"
    file.write_text(block.text)

    assert checked_rules(file).grants


def test_every_block_has_its_rule() -> None:
    """A block is in a language that is checked, and each entry of the list of exceptions is needed."""
    assert {block.language for block in ALL} <= LANGUAGES
    assert len(of("python")) > 25
    used = {
        (page, part) for page, part in NOT_RUN for block in ALL if block.page == page and part in block.text
    }
    assert used == set(NOT_RUN)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link within the repository names a file that exists, and a heading of it."""
    for file, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / file).resolve() if file else page

        assert target.exists(), f"{page.name}: {file}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name}: {file}#{anchor}"


def test_index_lists_every_page() -> None:
    """No page of docs is missing from the index."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", index))

    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}


def test_readme_is_short() -> None:
    """A newcomer reads it to the end."""
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) < 150
