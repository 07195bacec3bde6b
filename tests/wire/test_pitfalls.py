"""What a server for DuckDB's Airport extension gets wrong easily, one test for each."""

from __future__ import annotations

import hashlib

import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from tests import flight_client as wire
from tests.conftest import TOKEN
from tests.flight_client import ROWID, Flight, descriptor_of, path_descriptor, refusal, schema_in

from .conftest import COLUMNS, ROWS
from .replay import flights_by_schema, is_rowid, unpacked


def listing(client: Flight, name: str = "db1") -> bytes:
    """Return the answer to `list_schemas`."""
    (answer,) = client.action("list_schemas", {"catalog_name": name})
    return answer


def test_binary_comes_as_msgpack_str(client: Flight) -> None:
    """Descriptors and Arrow schemas arrive as msgpack str although they are not UTF-8."""
    client.create_schema("db1", "s")
    arrow = bytes(pa.schema([("é", pa.int32())]).serialize())
    entries: list[tuple[str, bytes]] = [
        ("catalog_name", b"\xa3db1"),
        ("schema_name", b"\xa1s"),
        ("table_name", b"\xa1t"),
        ("arrow_schema", b"\xda" + len(arrow).to_bytes(2, "big") + arrow),
    ]
    body = b"\x84" + b"".join(msgspec.msgpack.encode(key) + value for key, value in entries)
    (result,) = client.action("create_table", body)

    with pytest.raises(UnicodeDecodeError):
        arrow.decode()
    assert schema_in(pb.FlightInfo.FromString(result)).names == ["é", "rowid"]


def test_length_and_hash_of_a_listing_are_exact(client: Flight, table: pb.FlightInfo) -> None:
    """The length is that of the unpacked bytes, the hash that of the packed pair."""
    del table
    root = unpacked(listing(client))
    contents = root["schemas"][0]["contents"]
    length, compressed = msgspec.msgpack.decode(contents["serialized"])

    assert contents["sha256"] == hashlib.sha256(contents["serialized"]).hexdigest()
    assert compressed[:4] == b"\x28\xb5\x2f\xfd"
    assert length == len(pa.Codec("zstd").decompress(compressed, decompressed_size=length))
    assert contents["url"] is None
    assert root["contents"] == {"sha256": "", "url": None, "serialized": None}


def test_listing_is_the_same_from_call_to_call(client: Flight, table: pb.FlightInfo) -> None:
    """Without a change the listing has the same bytes, so its hash can be kept."""
    del table
    first = listing(client)

    assert [listing(client) for _ in range(3)] == [first] * 3


def test_description_and_tags_are_never_nil(client: Flight, table: pb.FlightInfo) -> None:
    """The client takes nil for a comment or tags of a schema as a type error."""
    del table
    schema = unpacked(listing(client))["schemas"][0]

    assert (schema["description"], schema["tags"]) == ("", {})


def test_endpoints_is_an_array_of_endpoints_with_a_location(client: Flight, table: pb.FlightInfo) -> None:
    """`endpoints` answers serialized FlightEndpoints, each with the reuse-connection location."""
    body = {"descriptor": descriptor_of(table), "parameters": {"column_ids": [0], "json_filters": ""}}
    (answer,) = client.action("endpoints", body)
    (data,) = msgspec.msgpack.decode(answer)
    endpoint = pb.FlightEndpoint.FromString(data)

    assert [location.uri for location in endpoint.location] == ["arrow-flight-reuse-connection://?"]
    assert endpoint.ticket.ticket


def test_scan_delivers_all_columns_by_position(client: Flight, table: pb.FlightInfo) -> None:
    """Columns that were not asked for come as nulls of their type, the row id last."""
    (ticket,) = client.scan(descriptor_of(table), [2])
    rows = wire.table_of(client.get(ticket))

    assert rows.to_pydict() == {
        "id": [None, None],
        "name": [None, None],
        "active": [True, None],
        "rowid": [None, None],
    }
    assert rows.schema.types == schema_in(table).types
    assert is_rowid(schema_in(table).field(3))


def test_scan_takes_repeated_and_unordered_columns(client: Flight, table: pb.FlightInfo) -> None:
    """Column ids may repeat and come in any order; the stream stays in the advertised order."""
    (ticket,) = client.scan(descriptor_of(table), [2, 0, 2, ROWID, 0])
    rows = wire.table_of(client.get(ticket))

    assert rows.to_pydict() == {
        "id": [1, 2],
        "name": [None, None],
        "active": [True, None],
        "rowid": [0, 1],
    }


def test_not_null_column_that_is_not_read_is_nullable_in_the_stream(client: Flight) -> None:
    """A NOT NULL column that was not asked for is sent as nulls under a nullable field."""
    client.create_schema("db1", "s")
    info = client.create_table("db1", "s", "nn", COLUMNS, not_null_constraints=[0])
    client.insert(descriptor_of(info), ROWS)
    (ticket,) = client.scan(descriptor_of(info), [1])
    rows = wire.table_of(client.get(ticket))

    assert not schema_in(info).field("id").nullable
    assert rows.schema.field("id").nullable
    assert rows["id"].to_pylist() == [None, None]


def test_scan_has_no_metadata_and_one_schema(client: Flight, table: pb.FlightInfo) -> None:
    """A message with app_metadata or a second schema would end or break the scan."""
    for _ in range(3):
        client.insert(descriptor_of(table), ROWS)
    (ticket,) = client.scan(descriptor_of(table), [0, 1, 2, ROWID])
    frames = client.get(ticket)

    assert [wire.is_batch(one) for one in frames] == [False] + [True] * (len(frames) - 1)
    assert not any(wire.has_metadata(one) for one in frames)


def test_empty_table_scan_is_a_schema_alone(client: Flight) -> None:
    """A table without rows is a stream with its schema and no batch."""
    client.create_schema("db1", "s")
    info = client.create_table("db1", "s", "e", COLUMNS)
    (ticket,) = client.scan(descriptor_of(info), [0])

    assert [wire.is_batch(one) for one in client.get(ticket)] == [False]


@pytest.mark.parametrize("name", ["create_transaction", "catalog_version", "list_schemas"])
def test_client_always_gets_one_result(client: Flight, name: str) -> None:
    """The client crashes without a result, so there is always exactly one."""
    assert len(client.action(name, {"catalog_name": "db1"})) == 1


def test_version_says_whether_it_is_fixed(client: Flight) -> None:
    """Both keys of a version are always there: the client does not initialise them."""
    (body,) = client.action("catalog_version", {"catalog_name": "db1"})

    assert msgspec.msgpack.decode(body) == {"catalog_version": 1, "is_fixed": False}


@pytest.mark.parametrize("name", ["é", "名前", "a\tb", " leading", "trailing ", "x" * 600])
def test_names_that_no_header_can_carry_get_a_command(client: Flight, name: str) -> None:
    """DuckDB aborts on a PATH that is no ASCII header, so such names are addressed by CMD."""
    client.create_schema("db1", name)
    info = client.create_table("db1", name, name, COLUMNS)

    assert info.flight_descriptor.type == pb.FlightDescriptor.CMD
    assert not info.flight_descriptor.path
    assert client.insert(descriptor_of(info), ROWS) == 2
    assert client.read(descriptor_of(info), 3).num_rows == 2


@pytest.mark.parametrize("name", ["a/b", "a.b", 'a"b', "a b", "select", "%41"])
def test_odd_ascii_names_are_found_again(client: Flight, name: str) -> None:
    """Slashes, dots, quotes and spaces in names reach the same table."""
    client.create_schema("db1", name)
    info = client.create_table("db1", name, name, COLUMNS)

    assert client.insert(descriptor_of(info), ROWS) == 2
    assert client.read(descriptor_of(info), 3).num_rows == 2


@pytest.mark.parametrize("attached", ["db1", "DB1", "Db1", ""])
def test_catalog_name_is_echoed_as_attached(client: Flight, table: pb.FlightInfo, attached: str) -> None:
    """One catalog attached under several spellings is described under the one that was sent."""
    del table
    (info,) = flights_by_schema(listing(client, attached))["s"]
    headers = [("airport-list-flights-filter-catalog", attached), ("airport-list-flights-filter-schema", "s")]
    (flight,) = client.list_flights(headers=headers)
    asked = {"descriptor": descriptor_of(info)}
    (described,) = client.action("flight_info", asked)
    change = {"catalog": attached, "schema": "s", "name": "t", "column_name": "id", "expression": "1"}
    (altered,) = client.action("set_default", change)
    made = client.create_table(attached, "s", "t2", COLUMNS)

    for one in (info, flight, pb.FlightInfo.FromString(described), pb.FlightInfo.FromString(altered), made):
        assert msgspec.msgpack.decode(one.app_metadata)["catalog"] == attached
    assert client.read(descriptor_of(info), 3).num_rows == 2
    assert client.insert(descriptor_of(made), ROWS) == 2


def test_flight_info_returns_the_descriptor_that_was_sent(client: Flight, table: pb.FlightInfo) -> None:
    """The client compares the descriptors byte by byte."""
    for descriptor in (descriptor_of(table), path_descriptor("s", "t"), wire.cmd_descriptor("S.T")):
        (body,) = client.action("flight_info", {"descriptor": descriptor, "at_unit": "", "at_value": ""})
        assert descriptor_of(pb.FlightInfo.FromString(body)) == descriptor
        assert descriptor_of(client.flight_info(descriptor)) == descriptor


def test_alter_answers_the_new_description(client: Flight, table: pb.FlightInfo) -> None:
    """Every ALTER answers a FlightInfo with app_metadata, also where nothing visible changed."""
    base = {"catalog": "db1", "schema": "s", "name": "t"}
    for name, more in {
        "set_default": {"column_name": "name", "expression": "'x'"},
        "set_not_null": {"column_name": "id"},
        "drop_not_null": {"column_name": "id"},
        "rename_column": {"old_name": "name", "new_name": "label"},
        "rename_table": {"new_table_name": "t2"},
    }.items():
        (body,) = client.action(name, {**base, **more})
        info = pb.FlightInfo.FromString(body)
        assert msgspec.msgpack.decode(info.app_metadata)["type"] == "table"

    assert msgspec.msgpack.decode(info.app_metadata)["name"] == "t2"
    assert schema_in(info).field("label").metadata[b"default"] == b"'x'"
    assert descriptor_of(info) != descriptor_of(table)


def test_layout_change_is_noticed(client: Flight, table: pb.FlightInfo) -> None:
    """A client with other columns in its cache is told so instead of misreading the rows."""
    column = bytes(pa.schema([("extra", pa.int32())]).serialize())
    body = {"catalog": "db1", "schema": "s", "name": "t", "column_schema": column}
    (result,) = client.action("add_column", body)
    fresh = pb.FlightInfo.FromString(result)
    stale = (
        "the columns of table 's.t' have changed since it was attached;"
        " DETACH and ATTACH the database again to see them"
    )
    expected = ("FAILED_PRECONDITION", stale)

    assert refusal(lambda: client.scan(descriptor_of(table), [0])) == expected
    assert refusal(lambda: client.insert(descriptor_of(table), ROWS)) == expected
    assert client.read(descriptor_of(fresh), 4).num_rows == 2


def test_layout_change_that_is_none_is_not_refused(client: Flight, table: pb.FlightInfo) -> None:
    """A change of a default leaves a client with the old description working."""
    change = {"catalog": "db1", "schema": "s", "name": "t", "column_name": "id", "expression": "1"}
    client.action("set_default", change)

    assert client.read(descriptor_of(table), 3).num_rows == 2


@pytest.mark.parametrize("name", ["T", "t"])
def test_names_are_taken_as_typed(client: Flight, table: pb.FlightInfo, name: str) -> None:
    """ALTER and DROP carry names as the user typed them, in any letter case."""
    del table
    base: dict[str, object] = {"catalog": "DB1", "schema": "S", "name": name}
    (body,) = client.action("rename_column", {**base, "old_name": "NAME", "new_name": "Label"})

    assert schema_in(pb.FlightInfo.FromString(body)).names == ["id", "Label", "active", "rowid"]
    drop = {"catalog_name": "db1", "schema_name": "S", "name": name}
    assert client.action("drop_table", drop) == []


def test_drops_answer_nothing(client: Flight, table: pb.FlightInfo) -> None:
    """Nothing is read of a drop, so nothing is sent; a missing one may be ignored."""
    del table
    drop = {"catalog_name": "db1", "schema_name": "s", "name": "t", "ignore_not_found": True}

    assert client.action("drop_table", drop) == []
    assert client.action("drop_table", drop) == []
    schema = {"catalog_name": "db1", "schema_name": "", "name": "s", "ignore_not_found": True}
    assert client.action("drop_schema", schema) == []
    assert client.action("drop_schema", schema) == []


def test_new_field_without_a_name_is_refused(client: Flight) -> None:
    """The client loses the name of a new struct field; the server does not make one up."""
    client.create_schema("db1", "s")
    client.create_table("db1", "s", "st", pa.schema([("a", pa.struct([("x", pa.int32())]))]))
    lost = bytes(pa.schema([("a", pa.string())]).serialize())
    body = {"catalog": "db1", "schema": "s", "name": "st", "column_path": ["a"], "column_schema": lost}

    code, message = refusal(lambda: client.action("add_field", body))

    assert code == "INVALID_ARGUMENT"
    assert message.startswith("the name of the new field in 'a' was not sent (DuckDB's Airport extension")


@pytest.mark.parametrize("filters", ["", '{"filters":[],"column_binding_names_by_index":[]}'])
def test_missing_filters_are_no_error(client: Flight, table: pb.FlightInfo, filters: str) -> None:
    """An empty filter text is sent where the optimizer did not run."""
    (ticket,) = client.scan(descriptor_of(table), [0], filters=filters)

    assert wire.table_of(client.get(ticket)).num_rows == 2


def test_two_aliases_share_one_catalog(server: sparkport.Server, table: pb.FlightInfo) -> None:
    """Two clients of one catalog see each other's rows at once."""
    with Flight(server.location, TOKEN) as first, Flight(server.location, TOKEN) as second:
        assert first.insert(descriptor_of(table), ROWS) == 2
        assert second.read(descriptor_of(table), 3).num_rows == 4


def test_schema_called_default_is_the_default(client: Flight, catalog: MemoryCatalog) -> None:
    """A schema named `default`, or the only one beside the functions, is marked as the default."""
    del catalog
    client.create_schema("db1", "only")
    alone = [schema["is_default"] for schema in unpacked(listing(client))["schemas"]]
    client.create_schema("db1", "default")
    marked = {schema["name"]: schema["is_default"] for schema in unpacked(listing(client))["schemas"]}

    assert alone == [True, None]
    assert marked == {"only": None, "default": True, "sparkport": None}
