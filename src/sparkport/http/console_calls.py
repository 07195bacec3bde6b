"""What the console runs: statements as any other, listed and cancelled with them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import msgspec
import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.scan import ScanOptions, TimePoint, TimeUnit
from sparkport.catalog.sql import SqlStatement
from sparkport.errors import InvalidRequestError, PreconditionError, UnavailableError
from sparkport.flight.access_log import AccessLog
from sparkport.flight.context import ServerContext
from sparkport.flight.request import timeout_text
from sparkport.flight.statement_kinds import CONSOLE
from sparkport.flight.statements import execution
from sparkport.flight.transport.statuses import outcome
from sparkport.http.json_rows import columns_of, json_columns

__all__ = ["ConsoleCall", "sample", "sql_lines", "sql_statement"]

MAX_ROWS = 100_000
_BATCH_ROWS = 2_000


class ConsoleCall:
    """A call from the console, in the registry while it runs."""

    def __init__(self, context: ServerContext, principal: str, client: str, peer: str) -> None:
        seconds = context.statements.max_seconds
        self.context = context
        self.log = AccessLog(CONSOLE, str(uuid.uuid4()))
        self.call = Call(
            principal,
            timeout=seconds,
            trace_id=self.log.trace,
            resources=context.resources,
            peer=peer,
            deadline_text=None if seconds is None else timeout_text(seconds),
        )
        self._client = client

    @contextlib.contextmanager
    def running(self, *, text: str = "", path: str = "") -> Iterator[str]:
        """List the call while a block runs, and give the block its id."""
        self.log.add(reads="" if text else "scan")
        self.log.text = text
        with self.logged(path):
            if self.context.audit is not None:
                self.context.audit.began(self.call, self.log)
            yield self.context.statements.begin(
                self.call, self.log, self._client, self._dismiss, is_airport=False
            )

    @contextlib.contextmanager
    def logged(self, path: str = "") -> Iterator[None]:
        """Write the log line of a block, and what the audit log has to know."""
        self.log.add(principal=self.call.principal, path=path)
        try:
            if self.context.audit is not None:
                self.context.audit.check()
            yield
            self._audit("OK")
        except GeneratorExit:
            self._finish("CANCELLED", "")
            raise
        except Exception as error:
            result = outcome(error, self.log.trace, airport=False, typed=False)
            self._finish(result.code.name, result.message)
            raise
        self.log.finish("OK")

    def _finish(self, status: str, error: str) -> None:
        # The first reason counts; the log tells of the other.
        with contextlib.suppress(UnavailableError):
            self._audit(status, error)
        self.log.finish(status, error)

    def _audit(self, status: str, error: str = "") -> None:
        if self.context.audit is not None:
            self.context.audit.ended(self.call, self.log, status, error)

    def _dismiss(self, code: grpc.StatusCode, text: str) -> None:
        del code, text
        self.call.cancel()


def sql_lines(console: ConsoleCall, sql: str, database: str) -> Iterator[bytes]:
    """Run a statement; yield lines of JSON: the id, the columns, the rows in parts, and the end.

    An error is a line too: by then the answer has begun.
    """
    try:
        with console.running(text=sql) as statement:
            yield _line(id=statement)
            yield from _run(console, sql_statement(console.context, sql, database))
    except GeneratorExit:
        raise
    except Exception as error:  # noqa: BLE001 - errors become a line, as they become statuses elsewhere
        result = outcome(error, console.log.trace, airport=False, typed=False)
        yield _line(error=result.message, code=result.code.name)


def sample(
    console: ConsoleCall, limit: int, version: str, database: str, schema: str, table: str
) -> dict[str, Any]:
    """Return the first rows of a table, now or at a version."""
    with console.running(path=f"{database}/{schema}/{table}"), console.context.queue.place(console.call):
        call = console.call
        catalog = console.context.named_catalog(call, database)
        found = find_table(call, find_schema(call, catalog, schema), table)
        point = TimePoint(TimeUnit.VERSION, version) if version else None
        with contextlib.closing(found.scan(call, ScanOptions(limit=limit, time_point=point))) as reader:
            visible = without_rowid(reader.schema)
            batches = []
            rows = 0
            for batch in call.counted(reader):
                batches.append(batch.select(visible.names).slice(0, limit - rows))
                rows += batches[-1].num_rows
                if rows >= limit:
                    break
        table_rows = pa.Table.from_batches(batches, visible).combine_chunks()
        parts = [json_columns(batch) for batch in table_rows.to_batches()]
        return {"columns": columns_of(visible), "rows": rows, "values": parts[0] if parts else []}


def sql_statement(context: ServerContext, sql: str, database: str) -> SqlStatement:
    """Return a statement in a database, the default one if none is named. Raises InvalidRequestError."""
    if not context.offers_sql:
        raise PreconditionError("SQL is switched off on this server (--no-sql)")
    if not sql.strip():
        raise InvalidRequestError("the statement is empty")
    return SqlStatement(sql, database or context.catalogs.default, "")


def _run(console: ConsoleCall, statement: SqlStatement) -> Iterator[bytes]:
    context, call = console.context, console.call
    if execution.describe(context, call, statement).arrow_schema is None:
        yield _line(changed=execution.update(context, call, statement))
        return
    rows = 0
    is_cut = False
    with execution.query(context, call, statement) as reader:
        yield _line(columns=columns_of(reader.schema))
        for batch in call.counted(reader):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                part = batch.slice(start, min(_BATCH_ROWS, MAX_ROWS - rows))
                rows += part.num_rows
                yield _line(values=json_columns(part), rows=part.num_rows)
                is_cut = rows >= MAX_ROWS
                if is_cut:
                    break
            if is_cut:
                break
    yield _line(done=rows, cut=is_cut)


def _line(**values: object) -> bytes:
    return msgspec.json.encode(values) + b"\n"
