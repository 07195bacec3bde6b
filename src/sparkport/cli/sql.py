"""`sparkport sql`: run a statement on a server and print its rows."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from sparkport.cli.connection import DEFAULT_LOCATION, Ca, Location, Token, TokenFile, connected
from sparkport.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE_ROWS = 1000


class OutputFormat(enum.StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def sql(
    statement: Annotated[str, typer.Argument(help="The statement; `-` reads it from standard input.")],
    form: Annotated[
        OutputFormat,
        typer.Option("--format", "-f", help="`json` is one object per line; `parquet` needs --output."),
    ] = OutputFormat.TABLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")
    ] = None,
    database: Annotated[str, typer.Option(help="A database other than the server's default one.")] = "",
    server: Location = DEFAULT_LOCATION,
    token: Token = None,
    token_file: TokenFile = None,
    tls_ca: Ca = None,
) -> None:
    """Run a statement in the SQL of a server's engine, and print its rows or how many it has changed."""
    text = sys.stdin.read() if statement == "-" else statement
    with connected(server, token, token_file, tls_ca, database) as client:
        if form is OutputFormat.PARQUET and output is None:
            raise InvalidRequestError("Parquet is not for a terminal: give a file with --output")
        rows = client.sql(text.strip().rstrip(";"))
        if isinstance(rows, int):
            typer.echo(f"{rows} {'row' if rows == 1 else 'rows'} changed")
            return
        _write(rows, form, output)


def _write(rows: pa.RecordBatchReader, form: OutputFormat, output: Path | None) -> None:
    match form:
        case OutputFormat.PARQUET:
            import pyarrow.parquet as pq

            assert output is not None
            with pq.ParquetWriter(output, rows.schema) as writer:
                for batch in rows:
                    writer.write_batch(batch)
        case OutputFormat.TABLE if output is None:
            _print_table(rows)
        case _:
            if output is None:
                _write_lines(sys.stdout, rows, form)
            else:
                with output.open("w", encoding="utf-8", newline="") as file:
                    _write_lines(file, rows, form)


def _write_lines(file: IO[str], rows: pa.RecordBatchReader, form: OutputFormat) -> None:
    import csv

    if form is OutputFormat.JSON:
        for batch in rows:
            for row in batch.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False, default=_plain) + "\n")
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(rows.schema.names)
    for batch in rows:
        for row in _rows(batch):
            writer.writerow(["" if value is None else _plain(value) for value in row])


def _print_table(rows: pa.RecordBatchReader) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for field in rows.schema:
        table.add_column(field.name, overflow="fold", justify="right" if _is_number(field.type) else "left")
    shown = count = 0
    for batch in rows:
        part = batch.slice(0, max(0, _TABLE_ROWS - shown))
        for row in _rows(part):
            table.add_row(*("NULL" if value is None else _plain(value) for value in row))
        shown += part.num_rows
        count += batch.num_rows
    Console().print(table)
    typer.echo(f"({count:,} {'row' if count == 1 else 'rows'}{_more(shown, count)})", err=True)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _more(shown: int, count: int) -> str:
    return "" if shown == count else f", the first {shown:,} are shown; --format csv prints all"


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _plain(value: Any) -> str:  # noqa: ANN401  (anything that a row has)
    if isinstance(value, bytes):
        return value.hex()
    return (
        json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else str(value)
    )
