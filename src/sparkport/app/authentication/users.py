"""A file with users: names and hashed passwords, with which BI tools and people log in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import argon2
import msgspec

from sparkport.app.authentication.credential_file import CredentialFile, StoredCredential, end_after
from sparkport.errors import ConfigError
from sparkport.protocol.decoding import decode_json

__all__ = ["HASHER", "MAX_PASSWORD_BYTES", "StoredUser", "UserFile"]

MAX_PASSWORD_BYTES = 1024
_MIN_PASSWORD = 12
_MAX_MEMORY_KIB = 256 << 10
_MAX_TIME_COST = 16

# Some 50 ms on one core. Each check takes this memory, so few may run at the same time.
HASHER = argon2.PasswordHasher(time_cost=2, memory_cost=46 << 10, parallelism=1, type=argon2.Type.ID)


class StoredUser(StoredCredential, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a user: a hash of the password that is slow to compute, for whoever guesses too."""

    argon2id: str


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: tuple[StoredUser, ...] = ()


class UserFile(CredentialFile[StoredUser]):
    """Reads and changes the file of users."""

    kind = "user"

    def create(self, name: str, password: str, valid: timedelta | None, roles: Sequence[str] = ()) -> None:
        """Add a user. Raises AlreadyExistsError and ConfigError."""
        self._check_name(name)
        now, end = end_after(valid)
        hashed = _hash(password)
        self._add(StoredUser(name=name, argon2id=hashed, created=now, expires=end, roles=tuple(roles)))

    def remove(self, name: str) -> None:
        """Remove a user. Raises NotFoundError and ConfigError."""
        self._remove(name)

    def set_password(self, name: str, password: str) -> None:
        """Replace the password of a user. Raises NotFoundError and ConfigError."""
        hashed = _hash(password)
        with self._changing() as stored:
            index = self._index(stored, name)
            stored[index] = msgspec.structs.replace(stored[index], argon2id=hashed)

    def _decode(self, content: bytes) -> tuple[StoredUser, ...]:
        users = decode_json(content, _Content).users
        if len({user.name for user in users}) < len(users):
            raise ConfigError(f"the user list '{self.path}' has a name twice")
        for user in users:
            self._check_hash(user)
        return users

    def _encode(self, stored: Sequence[StoredUser]) -> bytes:
        return msgspec.json.encode(_Content(tuple(stored)))

    def _check_hash(self, user: StoredUser) -> None:
        """Raise ConfigError for a hash of another kind, or one whose check would take too much."""
        try:
            parameters = argon2.extract_parameters(user.argon2id)
        except argon2.exceptions.InvalidHashError:
            parameters = None
        if (
            parameters is None
            or parameters.type is not argon2.Type.ID
            or parameters.memory_cost > _MAX_MEMORY_KIB
            or parameters.time_cost > _MAX_TIME_COST
        ):
            raise ConfigError(f"the user list '{self.path}' has no usable hash for '{user.name}'")


def _hash(password: str) -> str:
    if len(password) < _MIN_PASSWORD:
        raise ConfigError(f"a password has at least {_MIN_PASSWORD} characters")
    if len(password.encode()) > MAX_PASSWORD_BYTES:
        raise ConfigError(f"a password has at most {MAX_PASSWORD_BYTES} bytes")
    return HASHER.hash(password)
