"""The public keys of whoever issues access tokens, from a file or an address."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jwt
import structlog

from sparkport.config import is_loopback
from sparkport.errors import ConfigError, UnauthenticatedError
from sparkport.toolkit.file_stamps import file_stamp

__all__ = ["IssuerKey", "KeyFile", "KeySource", "KeyUrl", "key_source"]

_log = structlog.get_logger("sparkport")

# Asymmetric ones alone: with a shared secret, whoever can check a token could make one.
_ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_MAX_BYTES = 1 << 20
_FETCH_SECONDS = 5.0
_MAX_AGE_SECONDS = 600.0
_MIN_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key, and the algorithms it may be used with."""

    key: Any
    algorithms: tuple[str, ...]


Keys = Mapping[str | None, IssuerKey]


class KeySource(Protocol):
    """Where keys come from."""

    @abstractmethod
    def find(self, key_id: str | None) -> IssuerKey:
        """Return a key by its id; without an id the only one. Raises UnauthenticatedError."""
        raise NotImplementedError


class KeyFile(KeySource):
    """Keys in a file (JWKS), read again when it changes; one that is broken has no keys."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises ConfigError."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp = file_stamp(path)
        self._keys = _read(path)

    def find(self, key_id: str | None) -> IssuerKey:
        """Return a key by its id; without an id the only one. Raises UnauthenticatedError."""
        stamp = file_stamp(self._path)
        with self._lock:
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._keys = _read(self._path)
                except ConfigError as error:
                    self._keys = {}
                    _log.error("keys of access tokens not reloaded, none is valid", error=str(error))
            return _chosen(self._keys, key_id)


class KeyUrl(KeySource):
    """Keys at an address, kept for ten minutes.

    An unknown key is looked for once more, at most twice a minute whoever asks for it. An address that does
    not answer leaves the keys as they were.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Fetch the keys. Raises ConfigError."""
        self._url = url
        self._clock = clock
        self._turn = threading.Lock()
        self._keys = _fetch(url)
        self._fetched = self._tried = clock()

    def find(self, key_id: str | None) -> IssuerKey:
        """Return a key by its id; without an id the only one. Raises UnauthenticatedError."""
        is_old = self._clock() - self._fetched > _MAX_AGE_SECONDS
        is_unknown = key_id is not None and key_id not in self._keys
        # While one call fetches, the others go on with the keys there are.
        if (is_old or is_unknown) and self._turn.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._turn.release()
        return _chosen(self._keys, key_id)

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._tried < _MIN_PAUSE_SECONDS:
            return
        self._tried = now
        try:
            self._keys = _fetch(self._url)
            self._fetched = now
        except ConfigError as error:
            _log.error("keys of access tokens not fetched, those before stay in use", error=str(error))


def key_source(place: str) -> KeySource:
    """Return the keys at an https address or in a file. Raises ConfigError."""
    if "://" not in place:
        return KeyFile(Path(place))
    parts = urllib.parse.urlsplit(place)
    # Whoever can change the keys on their way can sign as anybody.
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return KeyUrl(place)
    raise ConfigError(f"keys of access tokens come from a file or an https address, not from '{place}'")


def _chosen(keys: Keys, key_id: str | None) -> IssuerKey:
    found = keys.get(key_id)
    if found is None and key_id is None and len(keys) == 1:
        (found,) = keys.values()
    if found is None:
        raise UnauthenticatedError("the access token is signed with a key that this server does not know")
    return found


def _read(path: Path) -> Keys:
    try:
        return _parsed(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"the keys in '{path}' cannot be read: {error.strerror}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: another address was not agreed upon."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, which makes the answer an error."""


def _fetch(url: str) -> Keys:
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler())
    try:
        with opener.open(url, timeout=_FETCH_SECONDS) as answer:
            content: bytes = answer.read(_MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the answer too, with the connection
        raise ConfigError(f"the keys at '{url}' cannot be fetched: {error}") from error
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"the keys at '{url}' have more than {_MAX_BYTES} bytes")
    return _parsed(content, url)


def _parsed(content: bytes, place: str) -> Keys:
    """Return the keys for signatures of a JWKS; those of other kinds are left out."""
    try:
        listed = json.loads(content)["keys"]
        keys = {entry.get("kid"): _key(entry) for entry in listed if _is_for_signatures(entry)}
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
        raise ConfigError(f"'{place}' is not a set of keys (JWKS): {type(error).__name__}") from error
    if not keys:
        raise ConfigError(f"'{place}' has no public keys for signatures")
    return keys


def _is_for_signatures(entry: Mapping[str, Any]) -> bool:
    algorithms = _ALGORITHMS.get(entry.get("kty", ""), ())
    return entry.get("use", "sig") == "sig" and entry.get("alg", next(iter(algorithms), None)) in algorithms


def _key(entry: dict[str, Any]) -> IssuerKey:
    # A key that was published with its private part would still only be used to verify.
    public = {name: value for name, value in entry.items() if name not in {"d", "p", "q", "dp", "dq", "qi"}}
    algorithms = (entry["alg"],) if "alg" in entry else _ALGORITHMS[entry["kty"]]
    return IssuerKey(jwt.PyJWK(public, algorithm=algorithms[0]).key, algorithms)
