"""Flight SQL's metadata commands, message by message."""

from __future__ import annotations

import grpc
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flight_sql_pb2 as sql
from sparkport.protocol.flight_sql.info import SqlInfo
from tests.flight_client import Flight
from tests.sql_client import descriptor, run, schema, sql_info, wrapped

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("when", pa.timestamp("ns", "UTC"))])


@pytest.fixture(autouse=True)
def tables(catalog: MemoryCatalog) -> None:
    """Make two schemas with three tables."""
    call = Call()
    for name in ("sales", "a_b"):
        catalog.create_schema(call, name, CreateSchemaOptions())
    sales = catalog.schema(call, "sales")
    assert sales is not None
    keyed = CreateTableOptions(primary_key=("id",))
    for name in ("orders", "o%ders"):
        sales.create_table(call, name, COLUMNS, keyed)  # type: ignore[attr-defined]


def test_catalogs_are_listed(plain: Flight) -> None:
    """GetCatalogs lists what the server serves, in a column that is not null."""
    rows = run(plain, sql.CommandGetCatalogs())

    assert rows.to_pylist() == [{"catalog_name": "db1"}]
    assert rows.schema == pa.schema([pa.field("catalog_name", pa.string(), nullable=False)])
    assert schema(plain, sql.CommandGetCatalogs()) == rows.schema


def test_schemas_match_a_pattern_with_an_escape(plain: Flight) -> None:
    """A backslash takes the meaning from % and _."""
    every = run(plain, sql.CommandGetDbSchemas()).column("db_schema_name").to_pylist()
    escaped = run(plain, sql.CommandGetDbSchemas(db_schema_filter_pattern="a\\_b"))
    other = run(plain, sql.CommandGetDbSchemas(db_schema_filter_pattern="sa\\_es"))
    elsewhere = run(plain, sql.CommandGetDbSchemas(catalog="other"))

    assert every == ["a_b", "sales", "sparkport"]
    assert escaped.to_pylist() == [{"catalog_name": "db1", "db_schema_name": "a_b"}]
    assert other.num_rows == elsewhere.num_rows == 0


def test_tables_have_their_exact_arrow_schema(plain: Flight) -> None:
    """GetTables filters by pattern and type, and shows the declared columns without the row id."""
    command = sql.CommandGetTables(
        catalog="db1",
        db_schema_filter_pattern="sal%",
        table_name_filter_pattern="o\\%ders",
        table_types=["TABLE"],
        include_schema=True,
    )
    (row,) = run(plain, command).to_pylist()
    shown = pa.ipc.read_schema(pa.py_buffer(row.pop("table_schema")))

    assert row == {
        "catalog_name": "db1",
        "db_schema_name": "sales",
        "table_name": "o%ders",
        "table_type": "TABLE",
    }
    assert shown == COLUMNS
    assert run(plain, sql.CommandGetTables(table_types=["VIEW"])).num_rows == 0
    assert run(plain, sql.CommandGetTables()).column("table_name").to_pylist() == ["o%ders", "orders"]


def test_table_types_are_in_order(plain: Flight) -> None:
    """GetTableTypes lists tables and views."""
    assert run(plain, sql.CommandGetTableTypes()).column(0).to_pylist() == ["TABLE", "VIEW"]


def test_primary_keys_come_from_the_constraints(plain: Flight) -> None:
    """GetPrimaryKeys lists the columns of a key in their order."""
    rows = run(plain, sql.CommandGetPrimaryKeys(db_schema="sales", table="orders")).to_pylist()

    assert rows == [
        {
            "catalog_name": "db1",
            "db_schema_name": "sales",
            "table_name": "orders",
            "column_name": "id",
            "key_name": None,
            "key_sequence": 1,
        }
    ]


@pytest.mark.parametrize(
    "command",
    [
        sql.CommandGetExportedKeys(table="orders"),
        sql.CommandGetImportedKeys(table="orders"),
        sql.CommandGetCrossReference(pk_table="orders", fk_table="orders"),
    ],
)
def test_there_are_no_foreign_keys(
    plain: Flight,
    command: sql.CommandGetExportedKeys | sql.CommandGetImportedKeys | sql.CommandGetCrossReference,
) -> None:
    """The listings of foreign keys are empty, in the columns of the specification."""
    rows = run(plain, command)

    assert rows.num_rows == 0
    assert rows.schema.names[-2:] == ["update_rule", "delete_rule"]
    assert rows.schema.field("delete_rule").type == pa.uint8()


def test_sql_info_is_a_dense_union(plain: Flight) -> None:
    """GetSqlInfo gives the numbers asked for, each in the member that the specification says."""
    info = sql_info(plain, [SqlInfo.SERVER_NAME, SqlInfo.SERVER_SUBSTRAIT, 9999])

    assert info == {SqlInfo.SERVER_NAME: "sparkport", SqlInfo.SERVER_SUBSTRAIT: False}
    assert sql_info(plain)[SqlInfo.SERVER_VERSION] == sparkport.__version__
    value = schema(plain, sql.CommandGetSqlInfo()).field("value").type
    assert value.mode == "dense"
    assert [value.field(index).name for index in range(value.num_fields)] == [
        "string_value",
        "bool_value",
        "bigint_value",
        "int32_bitmask",
        "string_list",
        "int32_to_int32_list_map",
    ]


def test_type_info_can_be_asked_for_one_type(plain: Flight) -> None:
    """GetXdbcTypeInfo lists all types in the order of their numbers, or those with one number."""
    every = run(plain, sql.CommandGetXdbcTypeInfo()).column("data_type").to_pylist()
    one = run(plain, sql.CommandGetXdbcTypeInfo(data_type=-5)).column("type_name").to_pylist()

    assert every == sorted(every)
    assert one == ["BIGINT"]


def test_a_forged_ticket_is_refused(plain: Flight) -> None:
    """A ticket that was changed by one bit is refused."""
    ticket = plain.flight_info(descriptor(sql.CommandGetCatalogs())).endpoint[0].ticket.ticket
    forged = bytes([ticket[0] ^ 1]) + ticket[1:]

    with pytest.raises(grpc.RpcError) as failure:
        plain.get(forged)
    assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (wrapped(sql.CommandStatementSubstraitPlan()), grpc.StatusCode.UNIMPLEMENTED),
        (wrapped(sql.CommandGetTables(catalog="x"))[:-2], grpc.StatusCode.INVALID_ARGUMENT),
        (
            sql.Any(
                type_url="type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables", value=b"\xff"
            ).SerializeToString(),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            sql.Any(type_url="type.googleapis.com/arrow.flight.protocol.sql.Nonsense").SerializeToString(),
            grpc.StatusCode.UNIMPLEMENTED,
        ),
    ],
)
def test_a_command_that_cannot_be_answered_has_a_clear_code(
    plain: Flight, command: bytes, code: grpc.StatusCode
) -> None:
    """Damaged and unknown commands are refused, and the server goes on."""
    data = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=command).SerializeToString()

    for method in ("GetFlightInfo", "GetSchema"):
        with pytest.raises(grpc.RpcError) as failure:
            plain.unary(method, data)
        assert failure.value.code() == code
    assert run(plain, sql.CommandGetCatalogs()).num_rows == 1
