"""Encrypted connections: real clients, certificates that change, and certificates that say who calls."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from pyarrow import flight

import sparkport
from sparkport.catalog import Call, CreateSchemaOptions, Schema
from sparkport.errors import ConfigError, UnauthenticatedError, UnavailableError
from sparkport.memory import MemoryCatalog
from tests.certificates import Authority, credentials
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal

from .serving import Process

ROWS = pa.table({"id": [1, 2, 3]})
TABLE = path_descriptor("db1", "s", "t")


class Watched(MemoryCatalog):
    """A catalog that notes who has listed it."""

    def __init__(self) -> None:
        super().__init__()
        self.principals: list[str] = []

    def schemas(self, call: Call) -> Sequence[Schema]:
        self.principals.append(call.principal)
        return super().schemas(call)


@pytest.fixture
def catalog() -> Watched:
    """Return an empty catalog."""
    return Watched()


@pytest.fixture(params=["direct", "standard"])
def grpc_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on each of the two gRPC servers."""
    monkeypatch.setenv("SPARKPORT_GRPC_SERVER", request.param)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return an authority of the test's own."""
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority, catalog: MemoryCatalog, grpc_server: None) -> Iterator[sparkport.Server]:
    """Serve with TLS."""
    del grpc_server
    catalog.create_schema(Call(), "main", CreateSchemaOptions())
    cert, key = authority.sign("server")
    with sparkport.Server(
        {"db1": catalog}, port=0, token=TOKEN, grace_seconds=0.2, tls_cert=cert, tls_key=key
    ) as running:
        yield running


@pytest.fixture
def strict(authority: Authority, catalog: MemoryCatalog, grpc_server: None) -> Iterator[sparkport.Server]:
    """Serve with TLS to clients with a certificate."""
    del grpc_server
    cert, key = authority.sign("server")
    with sparkport.Server(
        {"db1": catalog},
        port=0,
        token=TOKEN,
        grace_seconds=0.2,
        tls_cert=cert,
        tls_key=key,
        tls_client_ca=authority.ca,
    ) as running:
        yield running


def test_python_client_reads_and_writes_over_tls(server: sparkport.Server, authority: Authority) -> None:
    """The location says that the connection is encrypted, and the client works with the authority's file."""
    with sparkport.connect(server.location, token=TOKEN, tls_ca=authority.ca) as client:
        client.create_table("main", "t", ROWS.schema)
        client.insert("main", "t", ROWS)
        rows = client.scan("main", "t").read_all()

    assert server.location.startswith("grpc+tls://127.0.0.1:")
    assert rows["id"].to_pylist() == [1, 2, 3]


def test_pyarrow_and_adbc_work_over_tls(server: sparkport.Server, authority: Authority) -> None:
    """Arrow's own client and the ADBC driver connect with the authority's certificate."""
    root = authority.ca.read_text()
    with flight.connect(server.location, tls_root_certs=root) as client:
        header = client.authenticate_basic_token("anyone", TOKEN)
        actions = client.list_actions(flight.FlightCallOptions(headers=[header]))
    options = {
        DatabaseOptions.TLS_ROOT_CERTS.value: root,
        DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {TOKEN}",
    }
    with adbc.connect(server.location, db_kwargs=options) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 42 AS answer")
        answer = cursor.fetch_arrow_table()

    assert "list_schemas" in {action.type for action in actions}
    assert answer.to_pydict() == {"answer": [42]}


def test_unknown_authority_is_not_trusted(server: sparkport.Server, tmp_path: Path) -> None:
    """A client that trusts another authority sends nothing."""
    other = Authority(tmp_path, "other")
    with (
        sparkport.connect(server.location, token=TOKEN, tls_ca=other.ca, timeout=10) as client,
        pytest.raises(UnavailableError),
    ):
        client.tables()


def test_plain_client_gets_nothing(server: sparkport.Server) -> None:
    """A client without TLS is not answered, and the server goes on."""
    with (
        sparkport.connect(server.location.replace("+tls", ""), token=TOKEN, timeout=10) as client,
        pytest.raises(UnavailableError),
    ):
        client.tables()


def test_a_token_is_needed_over_tls_too(server: sparkport.Server, authority: Authority) -> None:
    """Encryption alone lets nobody in."""
    with (
        sparkport.connect(server.location, tls_ca=authority.ca) as client,
        pytest.raises(UnauthenticatedError),
    ):
        client.tables()


@pytest.mark.parametrize(
    ("newest", "is_accepted"), [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)]
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_oldest_version_of_tls_is_1_2(
    server: sparkport.Server, authority: Authority, newest: ssl.TLSVersion, is_accepted: bool
) -> None:
    """A client that knows TLS 1.1 at best is refused."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.set_ciphers("DEFAULT@SECLEVEL=0")  # or OpenSSL itself would not offer 1.1
    context.minimum_version = min(newest, ssl.TLSVersion.TLSv1_1)
    context.maximum_version = newest
    context.set_alpn_protocols(["h2"])

    assert _handshakes(server.location, context) is is_accepted


def _handshakes(location: str, context: ssl.SSLContext) -> bool:
    host, _, port = location.removeprefix("grpc+tls://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=host):
                return True
        except (ssl.SSLError, ConnectionResetError):
            return False


def _serial(server: sparkport.Server, authority: Authority) -> str:
    """Return the number of the certificate that the server shows now."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.set_alpn_protocols(["h2"])
    host, _, port = server.location.removeprefix("grpc+tls://").rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        shown = connection.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


def test_new_connections_get_a_certificate_that_was_replaced(
    server: sparkport.Server, authority: Authority, tmp_path: Path
) -> None:
    """Replaced files are used at once; files that do not fit together leave the certificate as it was."""
    first = _serial(server, authority)
    authority.sign("server")  # writes the same files
    second = _serial(server, authority)
    (tmp_path / "server-key.pem").write_text("no key")
    third = _serial(server, authority)
    (tmp_path / "server-cert.pem").unlink()
    fourth = _serial(server, authority)
    authority.sign("server")
    fifth = _serial(server, authority)

    assert first != second
    assert third == second
    assert fourth == second
    assert fifth != second


def test_open_connections_survive_a_new_certificate(server: sparkport.Server, authority: Authority) -> None:
    """A client goes on over the connection it has."""
    with Flight(server.location, TOKEN, alone=True, tls=credentials(authority.ca)) as client:
        before = client.list_flights()
        authority.sign("server")
        _serial(server, authority)
        after = client.list_flights()

    assert before == after


def test_client_certificate_says_who_calls(
    strict: sparkport.Server, authority: Authority, catalog: Watched
) -> None:
    """Without a header the common name of the certificate is the principal; a valid header wins over it."""
    cert, key = authority.sign("ada")
    with sparkport.connect(strict.location, tls_ca=authority.ca, tls_cert=cert, tls_key=key) as client:
        client.tables()
    by_certificate, catalog.principals = set(catalog.principals), []
    with sparkport.connect(
        strict.location, token=TOKEN, tls_ca=authority.ca, tls_cert=cert, tls_key=key
    ) as client:
        client.tables()

    assert by_certificate == {"ada"}
    assert set(catalog.principals) == {"user"}


def test_client_without_a_known_certificate_is_refused(
    strict: sparkport.Server, authority: Authority, tmp_path: Path
) -> None:
    """No certificate, and one of another authority, do not get as far as a call, also with the token."""
    stranger = Authority(tmp_path, "stranger").sign("ada")
    for pair in (None, stranger):
        tls = credentials(authority.ca, pair)
        with Flight(strict.location, TOKEN, alone=True, tls=tls) as client:
            code, _ = refusal(client.list_flights)

            assert code == "UNAVAILABLE"


def test_certificate_without_a_name_is_nobody(strict: sparkport.Server, authority: Authority) -> None:
    """A certificate without a common name needs a token."""
    with Flight(strict.location, None, tls=credentials(authority.ca, authority.sign(""))) as client:
        code, _ = refusal(client.list_flights)

        assert code == "UNAUTHENTICATED"


def test_tickets_are_bound_to_the_certificate(strict: sparkport.Server, authority: Authority) -> None:
    """A ticket is of no use with another certificate, and neither is a certificate with a wrong token."""
    ada = credentials(authority.ca, authority.sign("ada"))
    bob = credentials(authority.ca, authority.sign("bob"))
    with Flight(strict.location, None, tls=ada) as first, Flight(strict.location, None, tls=bob) as second:
        first.create_schema("db1", "s")
        first.create_table("db1", "s", "t", ROWS.schema)
        (ticket,) = first.scan(TABLE, [0])
        own = first.get(ticket)
        foreign = refusal(lambda: second.get(ticket))
        wrong_token = refusal(lambda: second.list_flights(headers=[("authorization", "Bearer wrong")]))

    assert own
    assert foreign[0] == "INVALID_ARGUMENT"
    assert wrong_token[0] == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tls_cert": "server-cert.pem"}, "go together"),
        ({"tls_key": "server-key.pem"}, "go together"),
        ({"tls_client_ca": "tests.pem"}, "client certificates need TLS"),
        ({"tls_cert": "none.pem", "tls_key": "server-key.pem"}, "cannot be read"),
        ({"tls_cert": "server-cert.pem", "tls_key": "other-key.pem"}, "must be a pair"),
        ({"tls_cert": "server-key.pem", "tls_key": "server-key.pem"}, "must be a pair"),
        (
            {"tls_cert": "server-cert.pem", "tls_key": "server-key.pem", "tls_client_ca": "server-key.pem"},
            "has no certificates",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused_at_the_start(
    authority: Authority, tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    """A server with a certificate that cannot work does not start."""
    authority.sign("server")
    authority.sign("other")
    files = {name: tmp_path / file for name, file in settings.items()}
    with pytest.raises(ConfigError, match=words):
        sparkport.Server({"db1": MemoryCatalog()}, port=0, **files)  # type: ignore[arg-type]


def test_certificates_are_not_taken_for_a_plain_location(authority: Authority) -> None:
    """The client does not send a token in the clear where certificates were given."""
    with pytest.raises(ValueError, match=r"grpc\+tls://"):
        sparkport.connect("grpc://127.0.0.1:1", token=TOKEN, tls_ca=authority.ca)
    with pytest.raises(ValueError, match="go together"):
        sparkport.connect("grpc+tls://127.0.0.1:1", token=TOKEN, tls_cert=authority.ca)


def test_command_makes_a_pair_that_a_server_takes(tmp_path: Path) -> None:
    """`sparkport certificate` overwrites nothing, keeps the key private, and a server runs with the pair."""
    arguments = ("certificate", "--folder", str(tmp_path))
    with Process(*arguments) as made, Process(*arguments) as again:
        codes = {made.finished(), again.finished()}
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    mode = key.stat().st_mode & 0o777
    with Process("serve", "--port", "0", "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        location = server.location
        token = server.text.partition("auth_token '")[2].partition("'")[0]
        with sparkport.connect(location, token=token, tls_ca=cert) as client:
            tables = client.tables()
        strict = ssl.create_default_context(cafile=str(cert))
        strict.set_alpn_protocols(["h2"])
        strict.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does from 3.13 on
        is_accepted = _handshakes(location, strict)

    assert codes == {0, 2}
    assert is_accepted
    assert mode == 0o600
    assert location.startswith("grpc+tls://")
    assert f"LOCATION '{location}'" in server.text
    assert tables == []


def test_beyond_loopback_a_server_needs_tls_or_a_flag() -> None:
    """Without TLS a server listens on the network only when told to, and then it warns."""
    with Process("serve", "--port", "0", "--host", "0.0.0.0") as refused:
        code = refused.finished()
    with Process("serve", "--port", "0", "--host", "0.0.0.0", "--insecure-network") as server:
        assert server.location.startswith("grpc://0.0.0.0:")

    assert code == 2
    assert "--insecure-network" in refused.text
    assert "go over the network unencrypted" in server.text
