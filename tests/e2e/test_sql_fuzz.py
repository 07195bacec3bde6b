"""Damaged commands of Flight SQL: each is refused or answered, and the server lives on."""

from __future__ import annotations

import random
from collections import Counter

import grpc
import pytest

import sparkport
from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flight_sql_pb2 as sql
from tests.flight_client import Flight
from tests.sql_client import query, update, wrapped

COUNT = 20_000
SEEDS = [
    wrapped(message)
    for message in (
        sql.CommandGetCatalogs(),
        sql.CommandGetDbSchemas(catalog="db1", db_schema_filter_pattern="%"),
        sql.CommandGetTables(table_name_filter_pattern="t%", table_types=["TABLE"], include_schema=True),
        sql.CommandGetTableTypes(),
        sql.CommandGetPrimaryKeys(catalog="db1", db_schema="main", table="t"),
        sql.CommandGetExportedKeys(table="t"),
        sql.CommandGetCrossReference(pk_table="t", fk_table="t"),
        sql.CommandGetSqlInfo(info=[0, 1, 8]),
        sql.CommandGetXdbcTypeInfo(data_type=4),
        sql.CommandStatementQuery(query="SELECT id, name FROM t WHERE id = 1"),
        sql.CommandStatementQuery(query="SELECT 1", transaction_id=b"nothing"),
        sql.CommandStatementUpdate(query="UPDATE t SET name = name"),
        sql.CommandPreparedStatementQuery(prepared_statement_handle=b"handle"),
        sql.CommandStatementIngest(table="t", schema="main", options={"a": "b"}),
    )
]
_FAULTS_OF_THE_SERVER = {"UNKNOWN", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED"}


def _mutated(random_source: random.Random, data: bytes) -> bytes:
    """Return bytes with a few of them changed, removed, doubled, or with a piece of another command."""
    mutable = bytearray(data)
    for _ in range(random_source.randint(1, 4)):
        at = random_source.randrange(len(mutable)) if mutable else 0
        match random_source.randrange(4):
            case 0 if mutable:
                mutable[at] = random_source.randrange(256)
            case 1:
                del mutable[at : at + random_source.randint(1, 8)]
            case 2:
                mutable[at:at] = mutable[at : at + random_source.randint(1, 8)]
            case _:
                other = random_source.choice(SEEDS)
                start = random_source.randrange(len(other))
                mutable[at:at] = other[start : start + random_source.randint(1, 16)]
    return bytes(mutable)


@pytest.mark.slow
def test_mutated_commands_leave_the_server_alive(
    server: sparkport.Server, catalog: MemoryCatalog, plain: Flight
) -> None:
    """20,000 damaged commands get only codes that tell of a fault of the client."""
    del server
    catalog.create_schema(Call(), "main", CreateSchemaOptions())
    update(plain, "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR)")
    update(plain, "INSERT INTO t VALUES (1, 'a')")
    random_source = random.Random(20)
    codes: Counter[str] = Counter()
    for number in range(COUNT):
        command = _mutated(random_source, random_source.choice(SEEDS))
        data = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=command).SerializeToString()
        try:
            plain.unary("GetSchema" if number % 2 else "GetFlightInfo", data)
        except grpc.RpcError as error:
            codes[error.code().name] += 1
        else:
            codes["OK"] += 1

    assert not _FAULTS_OF_THE_SERVER & codes.keys(), codes
    assert codes["OK"]
    assert codes["INVALID_ARGUMENT"]
    assert query(plain, "SELECT id, name FROM t") == [{"id": 1, "name": "a"}]
