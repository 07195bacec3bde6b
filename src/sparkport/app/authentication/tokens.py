"""A file with the tokens of several callers: hashed, each with a name and perhaps an end."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from sparkport.app.authentication.credential_file import CredentialFile, StoredCredential, end_after
from sparkport.protocol.decoding import decode_json

__all__ = ["StoredToken", "TokenFile", "digest"]


class StoredToken(StoredCredential, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a token: enough to recognise it, not enough to use it."""

    sha256: str

    @property
    def key(self) -> str:
        """The hash of the token."""
        return self.sha256


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[StoredToken, ...] = ()


class TokenFile(CredentialFile[StoredToken]):
    """Reads and changes the file of tokens."""

    kind = "token"

    def create(self, name: str, valid: timedelta | None, roles: Sequence[str] = ()) -> str:
        """Add a token and return it; it cannot be found out again. Raises AlreadyExistsError, ConfigError."""
        self._check_name(name)
        token = secrets.token_urlsafe(32)
        now, end = end_after(valid)
        self._add(
            StoredToken(
                name=name, sha256=digest(token.encode()), created=now, expires=end, roles=tuple(roles)
            )
        )
        return token

    def revoke(self, name: str) -> None:
        """Remove a token. Raises NotFoundError and ConfigError."""
        self._remove(name)

    def _decode(self, content: bytes) -> tuple[StoredToken, ...]:
        return decode_json(content, _Content).tokens

    def _encode(self, stored: Sequence[StoredToken]) -> bytes:
        return msgspec.json.encode(_Content(tuple(stored)))


def digest(token: bytes) -> str:
    """Return what is kept of a token. It has 256 random bits: nobody can try them all, however fast."""
    return hashlib.sha256(token).hexdigest()
