"""Byte fixtures of the Airport protocol: what the C++ client packs and what it reads."""

from __future__ import annotations

import base64
import hashlib

import msgspec
import pyarrow as pa

from sparkport.catalog import CatalogVersion, OnConflict, TableConstraints
from sparkport.catalog.ddl import SetNotNull
from sparkport.catalog.lookup import TablePath
from sparkport.errors import ConstraintViolationError
from sparkport.flight.transport.statuses import outcome
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flights, msgpack, schemas
from sparkport.protocol.airport import listing, requests
from sparkport.protocol.descriptor import TableAddress, decode, encode
from tests.flight_client import path_descriptor, schema_in

from .replay import unpacked

LISTING = (
    "ks0CSMUCNyi1L/1gSAFtEQCUIYOoY29udGVudHODpnNoYTI1NqCjdXJswKpzZXJpYWxpemVkwKdzY2hlbWFzkYWk"
    "bmFtZaJzMatkZXNjcmlwdGlvbqCkdGFnc4DZQGUyNWQ1OTMwNGQxYTdkNTFlOTI1Y2NiOTc2YzlmNjYyZWRhMzRk"
    "ZmZlYzJjNDk5NDQ2ZDkxM2FlNGJhMcUBZJLNAhrFAV0otS/9YBoBnQoAthA6NHDFzRr8f3D1r4++AgP7b5a7CKaU"
    "MKBpMdrd1BQNiWzyOuvj3wDGMU7c/dYsUmLSRtu2TAElACcALwAr/BLo/e5SQPyb/I2Pfjj8qaM3DZd2TD0N+few"
    "u9uImAQgABMBP65sKgEMfui3vEkvsmTIY8fwyZERHsMDhlfcFaPdne+fV4OW+aUDDBZ3QTEWWS3o5lA7EpeDtwVv"
    "CWKFKJGDKA9OkafkgCS6ZhTDNOsTqOEVo5ELdH6drHJWMlM3FKPbrozF0fnpqky7qiU/XVU1W3ZldJ5YORSTWSda"
    "ZsVFw8gqLU/kOBKjAS4gQAKEFNoDZZx0OJDBrdpcQBwmwHYpI+7+tYAWbuYNFjYGNwuVEzzvzi10OyvCnGCoZ2Db"
    "juUvI7I/nMTly4IFfuctvIre9DCwU7KwNu5+c+Hu6GxmZRP86Ya7sAnxh7KXpBqbb7klqmlzX2RlZmF1bHTDrHZl"
    "cnNpb25faW5mb4KvY2F0YWxvZ18BqGZpeGVkwgUATgFMMSebGA8DVYFOljlEAQ=="
)
ENDPOINTS = (
    "82aa64657363726970746f72aa08011a0273311a027431aa706172616d657465727386ac6a736f6e5f66696c"
    "74657273d93c7b2266696c74657273223a5b5d2c22636f6c756d6e5f62696e64696e675f6e616d65735f6279"
    "5f696e646578223a5b2261222c22726f776964225d7daa636f6c756d6e5f6964739200cfffffffffffffffff"
    "b97461626c655f66756e6374696f6e5f706172616d6574657273a0bb7461626c655f66756e6374696f6e5f69"
    "6e7075745f736368656d61a0a761745f756e6974a0a861745f76616c7565a0"
)
COLUMN_STATISTICS = (
    "83b1666c696768745f64657363726970746f72aa08011a0273311a027431ab636f6c756d6e5f6e616d65a161"
    "a474797065a6424947494e54"
)
CREATE_SCHEMA = "84ac636174616c6f675f6e616d65a3646231a6736368656d61a27331a7636f6d6d656e74c0a47461677380"
DROP_SCHEMA = (
    "85a474797065a6736368656d61ac636174616c6f675f6e616d65a3646231ab736368656d615f6e616d65a0a4"
    "6e616d65a27331b069676e6f72655f6e6f745f666f756e64c2"
)
DROP_TABLE = (
    "85a474797065a57461626c65ac636174616c6f675f6e616d65a3646231ab736368656d615f6e616d65a27331"
    "a46e616d65a27431b069676e6f72655f6e6f745f666f756e64c2"
)
CREATE_TABLE = (
    "8cac636174616c6f675f6e616d65a3646231ab736368656d615f6e616d65a27331aa7461626c655f6e616d65"
    "a27431ac6172726f775f736368656d61a53c3132383eab6f6e5f636f6e666c696374a56572726f72b46e6f74"
    "5f6e756c6c5f636f6e73747261696e74739100b2756e697175655f636f6e73747261696e747390b163686563"
    "6b5f636f6e73747261696e747391a72861203e203029b37072696d6172795f6b65795f636f6c756d6e7391a1"
    "61ae756e697175655f636f6c756d6e7390b66d756c74695f6b65795f7072696d6172795f6b65797390b16578"
    "7472615f636f6e73747261696e747390"
)
SET_NOT_NULL = (
    "86a7636174616c6f67a3646231a6736368656d61a27331a46e616d65a27431b069676e6f72655f6e6f745f66"
    "6f756e64c2ab636f6c756d6e5f6e616d65a161b069676e6f72655f6e6f745f666f756e64c2"
)

T1 = path_descriptor("s1", "t1")
ARROW_SCHEMA = bytes(pa.schema([("a", pa.int64())]).serialize())


def test_catalog_listing_is_read() -> None:
    """The listing of another server has the shape that ours is built on."""
    root = unpacked(base64.b64decode(LISTING))
    (schema,) = root["schemas"]
    (data,) = unpacked(schema["contents"]["serialized"])
    info = pb.FlightInfo.FromString(data)

    assert root["version_info"] == {"catalog_version": 1, "is_fixed": False}
    assert (schema["name"], schema["is_default"]) == ("s1", True)
    assert schema["contents"]["sha256"] == hashlib.sha256(schema["contents"]["serialized"]).hexdigest()
    assert info.flight_descriptor.SerializeToString() == T1
    assert schema_in(info).names == ["a", "b", "rowid"]


def test_catalog_listing_is_built_with_the_same_keys() -> None:
    """Our listing has the very keys of that one, on every level."""
    theirs = unpacked(base64.b64decode(LISTING))
    info = pb.FlightInfo.FromString(unpacked(theirs["schemas"][0]["contents"]["serialized"])[0])
    ours = unpacked(
        listing.encode(
            [listing.SchemaListing("s1", "", [info.SerializeToString()], {}, is_default=True)],
            CatalogVersion(1),
        )
    )

    assert ours["version_info"] == theirs["version_info"]
    assert ours["contents"] == theirs["contents"]
    assert set(ours["schemas"][0]) == set(theirs["schemas"][0])
    assert unpacked(ours["schemas"][0]["contents"]["serialized"]) == [info.SerializeToString()]


def test_app_metadata_has_the_documented_bytes() -> None:
    """The description of a table is the 103 bytes that the client reads."""
    packed = flights.app_metadata(TablePath("db1", "s1", "t1"), "")

    assert len(packed) == 103
    assert packed.hex() == (
        "89a474797065a57461626c65a6736368656d61a27331a7636174616c6f67a3646231a46e616d65a27431"
        "a7636f6d6d656e74c0ac696e7075745f736368656d61c0ab616374696f6e5f6e616d65c0"
        "ab6465736372697074696f6ec0aa65787472615f64617461c0"
    )


def test_descriptors_have_the_documented_bytes() -> None:
    """PATH and CMD descriptors are plain protobuf."""
    assert T1.hex() == "08011a0273311a027431"
    assert decode(T1, "db1") == TableAddress(TablePath("db1", "s1", "t1"))
    assert encode(TableAddress(TablePath("c", "s1", "t1"))).hex() == "08011a01631a0273311a027431"
    assert pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=b"abc").SerializeToString().hex() == (
        "08021203616263"
    )


def test_endpoints_request_is_read() -> None:
    """`endpoints` with a binary descriptor in a msgpack str and the row id as 2^64 - 1."""
    request = requests.endpoints(bytes.fromhex(ENDPOINTS))

    assert request.descriptor == T1
    assert request.column_ids == (0, 18446744073709551615)
    assert request.filters == b'{"filters":[],"column_binding_names_by_index":["a","rowid"]}'
    assert request.time_point is None


def test_column_statistics_request_is_read() -> None:
    """`column_statistics` has its descriptor under another key than the other actions."""
    request = requests.column_statistics(bytes.fromhex(COLUMN_STATISTICS))

    assert (request.descriptor, request.column) == (T1, "a")


def test_schema_requests_are_read() -> None:
    """`create_schema` has the name in `schema`, `drop_schema` in `name`."""
    created = requests.create_schema(bytes.fromhex(CREATE_SCHEMA))
    dropped = requests.drop_schema(bytes.fromhex(DROP_SCHEMA))

    assert (created.catalog, created.schema, created.options.comment) == ("db1", "s1", "")
    assert (dropped.catalog, dropped.schema, dropped.options.ignore_not_found) == ("db1", "s1", False)


def test_drop_table_request_is_read() -> None:
    """`drop_table` names schema and table."""
    dropped = requests.drop_table(bytes.fromhex(DROP_TABLE))

    assert (dropped.catalog, dropped.schema, dropped.table) == ("db1", "s1", "t1")


def test_create_table_request_is_read() -> None:
    """`create_table` carries NOT NULL by index, CHECK as SQL and the key by name."""
    placeholder = b"\xa5<128>"
    body = bytes.fromhex(CREATE_TABLE)
    assert body.count(placeholder) == 1
    packed = b"\xd9" + bytes([len(ARROW_SCHEMA)]) + ARROW_SCHEMA
    created = requests.create_table(body.replace(placeholder, packed))

    assert (created.catalog, created.schema, created.table) == ("db1", "s1", "t1")
    assert created.arrow_schema.equals(pa.schema([("a", pa.int64())]))
    assert created.options.on_conflict is OnConflict.ERROR
    assert created.options.not_null_constraints == (0,)
    assert created.options.check_constraints == ("(a > 0)",)
    assert created.options.primary_key == ("a",)


def test_repeated_key_is_tolerated() -> None:
    """`set_not_null` has the key `ignore_not_found` twice."""
    request = requests.set_not_null(bytes.fromhex(SET_NOT_NULL))

    assert (request.catalog, request.schema, request.table) == ("db1", "s1", "t1")
    assert request.change == SetNotNull("a")
    assert request.ignore_not_found is False


def test_answers_have_the_documented_bytes() -> None:
    """Versions, transactions, counts and CHECK constraints are packed as the client reads them."""
    version = listing.version_info(CatalogVersion(1))
    dressed = schemas.add_airport_metadata(
        pa.schema([("a", pa.int64())]), TableConstraints(checks=("a > 0",)), statistics=False
    )

    assert msgpack.encode(version).hex() == "82af636174616c6f675f76657273696f6e01a869735f6669786564c2"
    assert msgpack.encode({"identifier": None}).hex() == "81aa6964656e746966696572c0"
    assert msgpack.encode({"identifier": "tx-1"}).hex() == "81aa6964656e746966696572a474782d31"
    assert msgpack.encode({"total_changed": 3}).hex() == "81ad746f74616c5f6368616e67656403"
    assert dressed.metadata[b"check_constraints"].hex() == "81ab636f6e73747261696e747391a561203e2030"


def test_endpoints_answer_has_the_documented_bytes() -> None:
    """An endpoint has one location, the literal that means the same connection."""
    assert flights.encode_endpoints([flights.endpoint(b"T1")]).hex() == (
        "91c42b0a040a02543112230a216172726f772d666c696768742d72657573652d636f6e6e656374696f6e3a2f2f3f"
    )


def test_empty_schema_can_be_unpacked() -> None:
    """The contents of an empty schema are a pair of length one and zstd data, with its hash."""
    contents = listing.contents([])
    serialized = contents["serialized"]
    assert isinstance(serialized, bytes)

    assert serialized[:2] == b"\x92\x01"
    assert unpacked(serialized) == []
    assert contents["sha256"] == hashlib.sha256(serialized).hexdigest()
    assert unpacked(bytes.fromhex("9201c40a28b52ffd200109000090")) == []


def test_typed_error_has_the_documented_keys() -> None:
    """A broken constraint names DuckDB's exception class beside the message."""
    error = ConstraintViolationError("UNIQUE", "t1")
    trailers = dict(outcome(error, "id", airport=True, typed=True).trailers)
    details = trailers["grpc-status-details-bin"]
    assert isinstance(details, bytes)

    assert msgspec.msgpack.decode(details) == {
        "exception_type": "ConstraintException",
        "message": "UNIQUE constraint of table 't1' failed",
    }
