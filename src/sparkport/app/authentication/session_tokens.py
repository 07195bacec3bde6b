"""What a user gets for a password: a token that ends soon, with the user, or with the password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sparkport.app.authentication.users import StoredUser

__all__ = ["SessionTokens"]

_PREFIX = "sparkport-session"
_VALID = timedelta(hours=12)
_PARTS = 4


class SessionTokens:
    """Issues and reads session tokens: a name and an end, signed together with the hash of the password.

    With the same key several servers take each other's; without one they live as long as the process.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else hmac.digest(key, b"sessions", hashlib.sha256)

    def issue(self, user: StoredUser, now: datetime) -> str:
        """Return a new session token of a user."""
        end = now + _VALID if user.expires is None else min(now + _VALID, user.expires)
        name = base64.urlsafe_b64encode(user.name.encode()).decode().rstrip("=")
        seconds = str(int(end.timestamp()))
        return ".".join((_PREFIX, name, seconds, self._signature(user, seconds)))

    def user(self, token: str, users: Mapping[str, StoredUser], now: datetime) -> StoredUser | None:
        """Return the user of a session token if it is valid."""
        parts = token.split(".")
        if len(parts) != _PARTS or parts[0] != _PREFIX:
            return None
        _, encoded, seconds, signature = parts
        user = users.get(_decoded(encoded))
        if user is None or not hmac.compare_digest(
            self._signature(user, seconds).encode(), signature.encode()
        ):
            return None
        # What was signed is a number.
        is_over = now >= datetime.fromtimestamp(int(seconds), UTC) or not user.is_valid_at(now)
        return None if is_over else user

    @staticmethod
    def is_one(token: str) -> bool:
        """Return whether a text looks like a session token."""
        return token.startswith(_PREFIX + ".")

    def _signature(self, user: StoredUser, seconds: str) -> str:
        signed = f"{user.name}\0{seconds}\0{user.argon2id}".encode()
        return hmac.digest(self._key, signed, hashlib.sha256).hex()


def _decoded(name: str) -> str:
    try:
        return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""
