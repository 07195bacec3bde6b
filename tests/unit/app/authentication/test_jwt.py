"""Access tokens: which are valid, and every way in which one is not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import sparkport
from sparkport.app.authentication.jwt import JwtAuthenticator
from sparkport.app.authentication.jwt_keys import KeyUrl, key_source
from sparkport.app.authentication.jwt_rules import JwtRules
from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import ConfigError, UnauthenticatedError
from sparkport.flight.transport.auth import BearerTokens
from sparkport.memory import MemoryCatalog

ISSUER, AUDIENCE = "https://issuer.example", "sparkport"
KEY = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def public(key: rsa.RSAPrivateKey, key_id: str = "one", **more: str) -> dict[str, Any]:
    """Return a public key as an issuer publishes it."""
    own: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    del own["key_ops"]
    return own | {"kid": key_id} | more


def curve(key_id: str) -> dict[str, Any]:
    """Return the public key of the curve."""
    own: dict[str, Any] = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key()))
    return own | {"kid": key_id}


def write(path: Path, *keys: dict[str, Any]) -> None:
    """Write a set of keys."""
    path.write_text(json.dumps({"keys": keys}))


def claims(**changes: object) -> dict[str, Any]:
    """Return valid claims with changes; None leaves a claim out."""
    now = int(time.time())
    own = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now + 600, "nbf": now}
    return {name: value for name, value in (own | changes).items() if value is not None}


def _part(content: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")


def signed(content: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", key_id: str = "one") -> str:
    """Return a header with a token, whatever its claims are."""
    body = json.dumps(content).encode()
    return "Bearer " + jwt.PyJWS().encode(body, key, algorithm, headers={"kid": key_id, "typ": "JWT"})


def forged(algorithm: str, secret: bytes | None) -> str:
    """Return a token that is not signed at all, or with a secret of the forger's choice."""
    body = _part({"alg": algorithm, "kid": "one", "typ": "JWT"}) + b"." + _part(claims())
    mac = b"" if secret is None else hmac.digest(secret, body, hashlib.sha256)
    return "Bearer " + (body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


def authenticator(file: Path) -> JwtAuthenticator:
    """Return an authenticator with the keys of a file, and a token of the server beside."""
    rules = JwtRules(ISSUER, AUDIENCE, str(file))
    return JwtAuthenticator(rules, key_source(rules.keys), BearerTokens({"a.plain.token": "user"}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with the keys of the issuer."""
    path = tmp_path / "keys.json"
    write(path, public(KEY), curve("two"))
    return path


@pytest.fixture
def known(file: Path) -> JwtAuthenticator:
    """Return an authenticator with those keys."""
    return authenticator(file)


def test_valid_tokens(known: JwtAuthenticator) -> None:
    """The claim names the principal, whatever asymmetric algorithm fits the key; other tokens go on."""
    assert known.authenticate(signed(claims())) == "ada"
    assert known.authenticate(signed(claims(), algorithm="PS256")) == "ada"
    assert known.authenticate(signed(claims(), CURVE, "ES256", "two")) == "ada"
    assert known.authenticate(signed(claims(aud=["x", AUDIENCE]))) == "ada"
    assert known.authenticate("Bearer a.plain.token") == "user"


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"exp": int(time.time()) - 90},
        {"nbf": int(time.time()) + 6000},
        {"exp": None},
        {"iss": None},
        {"aud": None},
        {"sub": None},
        {"iss": "https://other.example"},
        {"iss": "https://issuer.example/"},
        {"aud": "other"},
        {"aud": []},
        {"sub": ""},
        {"sub": 7},
        {"sub": "user"},
        {"sub": "anonymous"},
        {"sub": "a\nb"},
        {"sub": "x" * 201},
        {"exp": "soon"},
    ],
)
def test_wrong_claims_are_refused(known: JwtAuthenticator, changes: dict[str, object]) -> None:
    """A token that is expired, not valid yet, of or for another, or without a name is refused."""
    with pytest.raises(UnauthenticatedError):
        known.authenticate(signed(claims(**changes)))


@pytest.mark.parametrize(
    ("claim", "content", "roles"),
    [
        (None, {"roles": ["a"]}, set()),
        ("roles", {"roles": ["a", "b", 1, None]}, {"a", "b"}),
        ("roles", {"roles": "a b"}, {"a", "b"}),
        ("roles", {"roles": {"a": "b"}}, set()),
        ("roles", {}, set()),
        ("realm.roles", {"realm": {"roles": ["a"]}}, {"a"}),
        ("realm.roles", {"realm": ["roles"]}, set()),
    ],
)
def test_roles_come_from_their_claim(
    file: Path, claim: str | None, content: dict[str, object], roles: set[str]
) -> None:
    """A list of texts, or one text with spaces, perhaps inside other claims; anything else is no role."""
    rules = JwtRules(ISSUER, AUDIENCE, str(file), roles_claim=claim)
    known = JwtAuthenticator(rules, key_source(rules.keys), BearerTokens({"a.plain.token": "user"}))
    principal = known.authenticate(signed(claims(**content)))

    assert isinstance(principal, Principal)
    assert (principal.name, principal.roles, principal.way_in) == ("ada", frozenset(roles), WayIn.JWT)


def test_clocks_may_differ_by_a_minute(known: JwtAuthenticator) -> None:
    """A token that expired half a minute ago, or begins in half a minute, is still valid."""
    now = int(time.time())

    assert known.authenticate(signed(claims(exp=now - 30))) == "ada"
    assert known.authenticate(signed(claims(nbf=now + 30))) == "ada"


def test_forged_tokens_are_refused(known: JwtAuthenticator) -> None:
    """No signature, a public key as a shared secret, a foreign key, and altered claims let nobody in."""
    pem = KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body, signature = signed(claims()).removeprefix("Bearer ").split(".")
    attempts = [
        *(forged(algorithm, None) for algorithm in ("none", "None", "RS256", "")),
        *(forged(algorithm, pem) for algorithm in ("HS256", "RS256")),
        forged("HS256", json.dumps(public(KEY)).encode()),
        signed(claims(), OTHER),
        signed(claims(), key_id="three"),
        signed(claims(), key_id="two"),
        signed(claims(), CURVE, "ES256", "one"),
        f"Bearer {head}.{_part(claims(sub='root')).decode()}.{signature}",
        f"Bearer {head}.{body}.{signature[:-8]}AAAAAAAA",
        f"Bearer {head}.{body}.",
    ]
    for header in attempts:
        with pytest.raises(UnauthenticatedError):
            known.authenticate(header)


def test_malformed_tokens_are_refused(known: JwtAuthenticator) -> None:
    """Whatever bytes a stranger sends, the answer is a refusal."""
    good = signed(claims()).removeprefix("Bearer ")
    nested = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    chance = random.Random(7)
    attempts = [nested, f"{nested}.{nested}.x", f"{good.partition('.')[0]}.{nested}.x", "..", "\u00ff.a.b"]
    for _ in range(2000):
        letters = list(good)
        for _ in range(chance.randint(1, 4)):
            letters[chance.randrange(len(letters) - 4)] = chr(chance.randrange(33, 127))
        if (altered := "".join(letters)) != good:
            attempts.append(altered)
    for token in attempts:
        with pytest.raises(UnauthenticatedError):
            known.authenticate(f"Bearer {token}")


def test_key_is_used_with_its_own_algorithm_alone(file: Path) -> None:
    """A key that names its algorithm is used with no other, and keys for encryption are not used."""
    write(file, public(KEY, alg="RS512"), public(OTHER, "two", use="enc"))
    known = authenticator(file)

    assert known.authenticate(signed(claims(), algorithm="RS512")) == "ada"
    for header in (signed(claims()), signed(claims(), OTHER, key_id="two")):
        with pytest.raises(UnauthenticatedError):
            known.authenticate(header)


def test_refusal_shows_nothing_of_the_token(known: JwtAuthenticator) -> None:
    """What is wrong is said, the token and its claims are not."""
    with pytest.raises(UnauthenticatedError) as refused:
        known.authenticate(signed(claims(aud="secret-audience")))

    assert str(refused.value) == "the access token is not valid (InvalidAudienceError)"


def test_replaced_keys_count_at_once(known: JwtAuthenticator, file: Path) -> None:
    """A key taken out of the file admits nobody, also in calls that run; a broken file has no keys."""
    header = signed(claims())
    assert known.still_admits("ada", header)
    assert not known.still_admits("bob", header)
    write(file, public(OTHER, "new"))
    assert not known.still_admits("ada", header)
    assert known.authenticate(signed(claims(), OTHER, key_id="new")) == "ada"
    file.write_text("{")
    with pytest.raises(UnauthenticatedError):
        known.authenticate(signed(claims(), OTHER, key_id="new"))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        '{"keys": [{"kty": "RSA"}]}',
        '{"keys": [7]}',
    ],
)
def test_keys_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path, content: str) -> None:
    """A file without public keys, or with a shared secret alone, is a mistake."""
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(ConfigError):
        key_source(str(path))


def test_settings_go_together(file: Path) -> None:
    """Keys come over https, and an issuer is of no use without an audience."""
    with pytest.raises(ConfigError, match="https"):
        key_source("http://issuer.example/keys")
    with pytest.raises(ConfigError, match="all three"):
        sparkport.Server({"db1": MemoryCatalog()}, port=0, jwt_issuer=ISSUER, jwt_keys=str(file))


def test_server_takes_access_tokens(file: Path) -> None:
    """A client calls with an access token; a server with an issuer makes up no token of its own."""
    with sparkport.Server(
        {"db1": MemoryCatalog()}, port=0, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, jwt_keys=str(file)
    ) as server:
        for key, is_admitted in ((KEY, True), (OTHER, False)):
            token = signed(claims(), key).removeprefix("Bearer ")
            with sparkport.connect(server.location, token=token) as client:
                if is_admitted:
                    assert client.tables() == []
                else:
                    with pytest.raises(UnauthenticatedError, match="InvalidSignatureError"):
                        client.tables()

        assert server.token is None


class Issuer(http.server.BaseHTTPRequestHandler):
    """Publishes keys, and counts who asks."""

    keys: tuple[dict[str, Any], ...] = ()
    asked = 0
    status = 200

    def do_GET(self) -> None:
        """Answer with the keys."""
        type(self).asked += 1
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(json.dumps({"keys": self.keys}).encode())

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def address() -> Iterator[str]:
    """Serve the keys of an issuer."""
    Issuer.keys, Issuer.asked, Issuer.status = (public(KEY),), 0, 200
    with http.server.HTTPServer(("127.0.0.1", 0), Issuer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join()


def test_keys_at_an_address_are_kept_and_asked_for_rarely(address: str) -> None:
    """A new key is found, strangers with unknown keys cause few requests, and a failure changes nothing."""
    now = [0.0]
    keys = KeyUrl(address, clock=lambda: now[0])
    keys.find("one")
    assert Issuer.asked == 1
    Issuer.keys = (public(KEY), public(OTHER, "new"))
    now[0] = 40
    keys.find("new")
    assert Issuer.asked == 2
    for number in range(50):
        with pytest.raises(UnauthenticatedError):
            keys.find(f"unknown-{number}")
    assert Issuer.asked == 2
    Issuer.status = 500
    now[0] = 1000
    keys.find("new")
    assert Issuer.asked == 3
    Issuer.status, Issuer.keys = 200, (public(OTHER, "new"),)
    now[0] = 2000
    with pytest.raises(UnauthenticatedError):
        keys.find("one")
    assert Issuer.asked == 4


@pytest.mark.parametrize("status", [302, 404])
def test_address_must_answer_itself(address: str, status: int) -> None:
    """A server does not start with keys that it cannot get, and follows no redirection."""
    Issuer.status = status
    with pytest.raises(ConfigError, match="cannot be fetched"):
        key_source(address)
    assert Issuer.asked == 1
