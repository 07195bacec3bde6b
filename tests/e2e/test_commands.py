"""The commands beside `serve`: SQL on a running server, and checks of a machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import sparkport
from sparkport import cli
from sparkport.app.sample import load_sample
from sparkport.memory import MemoryCatalog

QUERY = "SELECT id, name, [id] AS ids, NULL AS nothing FROM sales.customers ORDER BY id LIMIT 2;"


@pytest.fixture(scope="module")
def server() -> Iterator[sparkport.Server]:
    """Serve the sample."""
    catalog = MemoryCatalog()
    load_sample(catalog)
    with sparkport.Server(catalog, port=0, token="commands-token", grace_seconds=0.2) as running:
        yield running


def run(server: sparkport.Server, *arguments: str, text: str | None = None) -> Result:
    """Run `sparkport sql` against the server."""
    options = ["--server", server.location, "--token", "commands-token"]
    return CliRunner().invoke(cli.app, ["sql", *arguments, *options], input=text)


def test_rows_are_printed_as_a_table(server: sparkport.Server) -> None:
    """Names, values and NULL, and the count beside them."""
    result = run(server, QUERY)

    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()][1:] == [
        ["1", "Ada", "[1]", "NULL"],
        ["2", "Blaise", "[2]", "NULL"],
    ]
    assert result.stderr == "(2 rows)\n"


def test_rows_are_printed_for_programs(server: sparkport.Server, tmp_path: Path) -> None:
    """CSV, a JSON object per line, and Parquet in a file."""
    csv = run(server, QUERY, "--format", "csv")
    objects = run(server, "-", "-f", "json", text=QUERY)
    file = tmp_path / "rows.parquet"
    parquet = run(server, "SELECT id FROM sales.customers", "-f", "parquet", "-o", str(file))
    refused = run(server, QUERY, "-f", "parquet")

    assert csv.stdout == "id,name,ids,nothing\n1,Ada,[1],\n2,Blaise,[2],\n"
    assert json.loads(objects.stdout.splitlines()[0]) == {"id": 1, "name": "Ada", "ids": [1], "nothing": None}
    assert (parquet.exit_code, pq.read_table(file).num_rows) == (0, 8)
    assert (refused.exit_code, "--output" in refused.stderr) == (2, True)


def test_a_change_tells_its_count_and_an_error_its_reason(server: sparkport.Server) -> None:
    """One line each, and exit code 2 for the error."""
    changed = run(server, "UPDATE sales.customers SET city = 'Here' WHERE id = 1")
    failed = run(server, "SELECT nope FROM sales.customers")

    assert changed.stdout == "1 row changed\n"
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert "nope" in failed.stderr


def test_a_server_that_is_not_there_is_told() -> None:
    """Without an answer the command ends with a line."""
    result = CliRunner().invoke(cli.app, ["sql", "SELECT 1", "--server", "grpc://127.0.0.1:9"])

    assert result.exit_code == 2
    assert result.stderr.startswith("sparkport: ")


def test_doctor_knows_that_java_needs_a_users_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A container may run as a number that is nobody's: Spark would end with an error of Ivy's."""
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    result = CliRunner().invoke(cli.app, ["doctor", str(tmp_path / "lake")])

    assert result.exit_code == 1
    assert "!!  user: user id 4000000000 has no name" in result.stdout
    assert "/etc/passwd" in result.stdout


def test_doctor_says_what_is_wrong(tmp_path: Path) -> None:
    """A warehouse that is a file is found, with what to do; the others are checked all the same."""
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    result = CliRunner().invoke(cli.app, ["doctor", str(file)])

    assert result.exit_code == 1
    assert f"warehouse: {file} is a file\n    give a folder" in result.stdout
    assert all(name in result.stdout for name in ("Java: ", "Delta's jars: ", "disk: ", "ports: "))


def test_help_is_by_task() -> None:
    """The commands are grouped by what one wants to do."""
    result = CliRunner().invoke(cli.app, ["--help"])

    for group in ("Serve", "Use a running server", "Say who may use it", "Look after a machine"):
        assert group in result.stdout
    assert "--install-completion" in result.stdout
