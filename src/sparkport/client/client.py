"""The client: schemas, tables, rows and transactions in Python terms."""

from __future__ import annotations

import base64
import itertools
import operator
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, SupportsIndex, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from sparkport.arrow.sizes import byte_size
from sparkport.catalog.lookup import TablePath
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.transactions import TransactionState
from sparkport.client import sql
from sparkport.client.channel import FlightChannel, Headers, TlsOptions
from sparkport.client.columns import describe, describe_schema
from sparkport.errors import InvalidRequestError, SparkportError, UnavailableError
from sparkport.protocol import descriptor, schemas
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.decoding import decode_json, decode_msgpack
from sparkport.protocol.descriptor import TableAddress
from sparkport.protocol.ipc import flight_data
from sparkport.protocol.ipc.flight_data import Decoder, Encoder

_TRANSACTION = "x-transaction-id"
_KEY = "x-idempotency-key"
_MAX_BATCH = 8 << 20

T = TypeVar("T")
Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader
RowIds: TypeAlias = Iterable[SupportsIndex] | pa.Array | pa.ChunkedArray


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How many rows a statement changed, and those rows if they were asked for."""

    affected_rows: int
    returning: pa.Table | None = None


def connect(
    location: str,
    *,
    token: str | None = None,
    username: str | None = None,
    password: str | None = None,
    catalog: str = "",
    timeout: float | None = None,
    tls_ca: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
) -> Client:
    """Return a client of the server at `grpc://host:port`, or `grpc+tls://host:port` for an encrypted one.

    `token` says who calls, or `username` and `password` do. `catalog` chooses a database other than the
    server's default one; `timeout` limits each call, in seconds. Files in PEM format: `tls_ca` has the
    authorities to trust instead of gRPC's own list, such as a self-signed certificate itself; `tls_cert` and
    `tls_key` are the client's.
    """
    headers: list[tuple[str, str | bytes]] = []
    if (username is None) != (password is None) or (username is not None and token is not None):
        raise InvalidRequestError("give either a token, or a username and its password")
    if token is not None:
        headers.append(("authorization", f"Bearer {token}"))
    if username is not None:
        credentials = base64.b64encode(f"{username}:{password}".encode()).decode()
        headers.append(("authorization", f"Basic {credentials}"))
    if catalog:
        headers.append(("airport-catalog", catalog))
    files = (None if file is None else Path(file) for file in (tls_ca, tls_cert, tls_key))
    return Client(FlightChannel(location, timeout, TlsOptions(*files)), tuple(headers), catalog)


class Client:
    """A client of the JSON dialect. Errors are those of `sparkport.errors`.

    The client remembers which version of a table it has scanned last. An UPDATE or DELETE by ids from that
    scan is a ConflictError if another has changed one of the rows since; then scan again.
    """

    def __init__(
        self,
        channel: FlightChannel,
        headers: Headers,
        catalog: str = "",
        versions: dict[TablePath, str] | None = None,
    ) -> None:
        self._channel = channel
        self._headers = headers
        self._catalog = catalog
        self._versions = {} if versions is None else versions

    @property
    def transaction_id(self) -> str | None:
        """The transaction that this client's calls belong to."""
        transaction = dict(self._headers).get(_TRANSACTION)
        return None if transaction is None else str(transaction)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def tables(self) -> list[TablePath]:
        """Return the addresses of all tables."""
        paths = []
        for info in self._channel.list_flights(self._headers):
            address = descriptor.decode(info.flight_descriptor.SerializeToString())
            if isinstance(address, TableAddress):
                paths.append(address.path)
        return paths

    def arrow_schema(self, schema: str, table: str) -> pa.Schema:
        """Return the columns of a table, with the row id last."""
        return schemas.decode(self._info(schema, table).schema)

    def create_schema(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> None:
        """Create a schema."""
        self._json("CreateSchema", schema_name=name, if_not_exists=if_not_exists, comment=comment)

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> int:
        """Drop a schema and return how many tables were dropped with it."""
        answer = self._json("DropSchema", schema_name=name, if_exists=if_exists, cascade=cascade)
        return int(answer.get("tables_dropped", 0))

    def create_table(
        self,
        schema: str,
        table: str,
        arrow_schema: pa.Schema,
        *,
        if_not_exists: bool = False,
        comment: str = "",
    ) -> None:
        """Create a table with these columns; the metadata of single fields is not sent."""
        self._json(
            "CreateTable",
            schema_name=schema,
            table_name=table,
            schema=describe_schema(arrow_schema),
            if_not_exists=if_not_exists,
            comment=comment,
        )

    def drop_table(self, schema: str, table: str, *, if_exists: bool = False) -> None:
        """Drop a table."""
        self._json("DropTable", schema_name=schema, table_name=table, if_exists=if_exists)

    def add_column(self, schema: str, table: str, column: pa.Field, *, if_exists: bool = False) -> None:
        """Add a column; `if_exists` forgives a missing table."""
        self._json(
            "AlterTableAddColumn",
            schema_name=schema,
            table_name=table,
            column=describe(column),
            if_exists=if_exists,
        )

    def drop_column(self, schema: str, table: str, column: str, *, if_exists: bool = False) -> None:
        """Drop a column; `if_exists` forgives a missing table or column."""
        self._json(
            "AlterTableDropColumn",
            schema_name=schema,
            table_name=table,
            column_name=column,
            if_exists=if_exists,
        )

    def insert(
        self, schema: str, table: str, rows: Rows, *, returning: bool = False, key: str = ""
    ) -> WriteResult:
        """Add rows, all or none.

        This and the other two statements carry a fresh `key`, or the one given. A server that does not
        answer is sent the statement once more, if that can be: with the same key it is done once.
        """
        command = {"operation": "insert", "schema_name": schema, "table_name": table, "returning": returning}
        return self._put(command, rows, key)

    def update(
        self,
        schema: str,
        table: str,
        row_ids: RowIds,
        rows: Rows,
        *,
        returning: bool = False,
        key: str = "",
        overwrite: bool = False,
    ) -> WriteResult:
        """Replace the rows named by `row_ids`, by position, all or none.

        Raises ConflictError if another has changed one of them since this client has scanned the table; with
        `overwrite` that does not matter.
        """
        command = {
            "operation": "update",
            "schema_name": schema,
            "table_name": table,
            "row_ids": _plain_ids(row_ids),
            "returning": returning,
            **self._based_on(schema, table, overwrite=overwrite),
        }
        return self._put(command, rows, key)

    def delete(
        self,
        schema: str,
        table: str,
        row_ids: RowIds,
        *,
        returning: bool = False,
        key: str = "",
        overwrite: bool = False,
    ) -> WriteResult:
        """Remove rows; ids that do not exist are ignored. Raises ConflictError as `update` does."""
        body = {
            "schema_name": schema,
            "table_name": table,
            "row_ids": _plain_ids(row_ids),
            "returning": returning,
            **self._based_on(schema, table, overwrite=overwrite),
        }
        own = self._with_key(key)
        data = msgspec.json.encode(body)
        answer = _sent(lambda: own._action("delete", data, _Written), again=not returning)  # noqa: SLF001
        return self._written(body, answer)

    def scan(self, schema: str, table: str, at: TimePoint | None = None) -> pa.RecordBatchReader:
        """Return a stream of all rows, with the row id as the last column.

        `at` reads an earlier state. The call ends with the last row, or when the
        reader is let go of.
        """
        if at is None:
            info = self._info(schema, table)
            endpoints = list(info.endpoint)
            self._remember(schema, table, decode_msgpack(info.app_metadata, _Described).version)
        else:
            point = {"unit": str(at.unit), "value": at.value}
            body = msgspec.msgpack.encode({"schema": schema, "table": table, "time_point": point})
            answers = self._channel.action("endpoints", body, self._headers)
            endpoints = [
                pb.FlightEndpoint.FromString(data) for data in decode_msgpack(answers[0], list[bytes])
            ]
        streams = [self._stream(endpoint.ticket.ticket) for endpoint in endpoints]
        first = next(streams[0])
        assert isinstance(first, pa.Schema)
        rest = itertools.chain.from_iterable(_batches(stream) for stream in streams)
        return pa.RecordBatchReader.from_batches(first, rest)

    @contextmanager
    def transaction(self, *, auto_commit: bool = False) -> Iterator[Client]:
        """Yield a client whose calls belong together: all are kept, or none.

        Leaving the block commits; an exception rolls back. Raises ConflictError
        when another transaction has changed the same rows first. With `auto_commit` all reads see one
        moment, and the first statement ends the transaction: that works on every engine.
        """
        body = msgspec.json.encode({"auto_commit": auto_commit})
        begun = self._action("create_transaction", body, _Transaction)
        headers = (*self._headers, (_TRANSACTION, begun.transaction_id))
        own = Client(self._channel, headers, self._catalog, {})
        try:
            yield own
        except BaseException:
            # The first reason counts; what cannot be rolled back now expires by itself.
            with suppress(SparkportError):
                self._end("rollback_transaction", begun.transaction_id)
            raise
        self._end("commit_transaction", begun.transaction_id)

    def sql(self, statement: str) -> pa.RecordBatchReader | int:
        """Run a statement in the SQL of the engine; return its rows, or how many it has changed."""
        return sql.run(self._channel, self._headers, statement)

    def statements(self) -> list[dict[str, Any]]:
        """Return the statements that run and the last ones that have ended: the caller's own."""
        listed: list[dict[str, Any]] = self._json("list_statements")["statements"]
        return listed

    def cancel(self, statement_id: str) -> dict[str, Any]:
        """Cancel a statement and return how it stands then. Raises NotFoundError."""
        statement: dict[str, Any] = self._json("cancel_statement", statement_id=statement_id)["statement"]
        return statement

    def transaction_status(self, transaction_id: str) -> TransactionState:
        """Return the state of a transaction."""
        return TransactionState(self._end("get_transaction_status", transaction_id))

    def _end(self, action: str, transaction_id: str) -> str:
        body = msgspec.json.encode({"transaction_id": transaction_id})
        return self._action(action, body, _Transaction).state

    def _json(self, action: str, **body: object) -> dict[str, Any]:
        return self._action(action, msgspec.json.encode(body), dict[str, Any])

    def _action(self, action: str, body: bytes, shape: type[T]) -> T:
        return decode_json(self._channel.action(action, body, self._headers)[0], shape)

    def _info(self, schema: str, table: str) -> pb.FlightInfo:
        path = [self._catalog, schema, table] if self._catalog else [schema, table]
        address = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=path)
        return self._channel.flight_info(address.SerializeToString(), self._headers)

    def _with_key(self, key: str) -> Client:
        headers = (*self._headers, (_KEY, key or uuid.uuid4().hex))
        return Client(self._channel, headers, self._catalog, self._versions)

    def _based_on(self, schema: str, table: str, *, overwrite: bool) -> dict[str, object]:
        """Return which version the rows of a statement were read from, if that is to be checked."""
        version = self._versions.get(TablePath(self._catalog, schema, table))
        return {} if overwrite or version is None or self.transaction_id else {"if_version": version}

    def _remember(self, schema: object, table: object, version: str | None) -> None:
        path = TablePath(self._catalog, str(schema), str(table))
        if version is None:
            self._versions.pop(path, None)
        else:
            self._versions[path] = version

    def _written(self, command: Mapping[str, object], answer: _Written) -> WriteResult:
        if "if_version" in command:
            self._remember(command["schema_name"], command["table_name"], answer.version)
        return WriteResult(answer.affected_rows, _rows(answer.returning_data))

    def _put(self, command: dict[str, object], rows: Rows, key: str) -> WriteResult:
        own = self._with_key(key)
        # A stream of rows is there once, and rows that were returned once are not returned again.
        again = not isinstance(rows, pa.RecordBatchReader) and not command["returning"]
        return _sent(lambda: own._put_once(command, rows), again=again)  # noqa: SLF001

    def _put_once(self, command: dict[str, object], rows: Rows) -> WriteResult:
        reader = rows if isinstance(rows, pa.RecordBatchReader) else _reader(rows)
        address = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=msgspec.json.encode(command))
        failures: list[Exception] = []
        frames = _frames(address.SerializeToString(), reader, failures)
        try:
            result = self._channel.put(frames, self._headers)
        except SparkportError:
            if failures:
                raise failures[0] from None
            raise
        return self._written(command, decode_msgpack(result.app_metadata, _Written))

    def _stream(self, ticket: bytes) -> Iterator[pa.Schema | pa.RecordBatch]:
        """Yield the schema, then the batches."""
        frames = (flight_data.decode(frame) for frame in self._channel.get(ticket, self._headers))
        decoder = Decoder(frames)
        yield decoder.arrow_schema
        for batch, _ in decoder:
            yield batch


class _Written(msgspec.Struct):
    affected_rows: int
    returning_data: bytes | None = None
    version: str | None = None


class _Described(msgspec.Struct):
    version: str | None = None


class _Transaction(msgspec.Struct):
    transaction_id: str
    state: str = ""


def _plain_ids(row_ids: RowIds) -> list[int]:
    """Return row ids as JSON has numbers; they are often those of a scan, in Arrow or NumPy."""
    values = row_ids.to_pylist() if isinstance(row_ids, pa.Array | pa.ChunkedArray) else row_ids
    return [operator.index(value) for value in values]


def _sent(send: Callable[[], T], *, again: bool) -> T:
    """Send a statement, and once more if no answer came; the server knows it by its key."""
    try:
        return send()
    except UnavailableError:
        if not again:
            raise
    return send()


def _batches(stream: Iterator[pa.Schema | pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (part for part in stream if isinstance(part, pa.RecordBatch))


def _reader(rows: pa.Table | pa.RecordBatch) -> pa.RecordBatchReader:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    return table.to_reader(max_chunksize=65_536)


def _frames(address: bytes, reader: pa.RecordBatchReader, failures: list[Exception]) -> Iterator[bytes]:
    """Yield the messages of a DoPut; gRPC only tells that the reader failed, `failures` why."""
    encoder = Encoder(reader.schema)
    yield encoder.schema(address)
    try:
        for batch in reader:
            for piece in _pieces(batch):
                yield from encoder.batch(piece)
    except Exception as error:
        failures.append(error)
        raise


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into messages of a size that servers take."""
    count = -(-byte_size(batch) // _MAX_BATCH) or 1
    rows = -(-batch.num_rows // count) or 1
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _rows(data: bytes | None) -> pa.Table | None:
    if data is None:
        return None
    try:
        return pa.ipc.open_stream(data).read_all()
    except pa.ArrowException as error:
        raise InvalidRequestError("the server's rows cannot be read") from error
