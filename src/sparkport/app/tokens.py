"""A file with the tokens of several callers: hashed, each with a name and perhaps an end."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from sparkport.errors import AlreadyExistsError, ConfigError, NotFoundError
from sparkport.protocol.decoding import decode_json

__all__ = ["RESERVED_NAMES", "StoredToken", "TokenFile", "digest", "parse_duration"]

RESERVED_NAMES = frozenset({"anonymous", "user"})  # the principals of --no-auth and of --token
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class StoredToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a token: enough to recognise it, not enough to use it."""

    name: str
    sha256: str
    created: datetime
    expires: datetime | None = None
    roles: tuple[str, ...] = ()

    def is_valid_at(self, now: datetime) -> bool:
        """Return whether the token has not expired."""
        return self.expires is None or now < self.expires


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[StoredToken, ...] = ()


class TokenFile:
    """Reads and changes the file; several processes may do so at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[StoredToken, ...]:
        """Return the tokens. Raises ConfigError, also for a file that others could add a token to."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read()
        except OSError as error:
            raise ConfigError(f"the token list '{self.path}' cannot be read: {error.strerror}") from error
        if status.st_mode & _WRITABLE:
            raise ConfigError(f"others can write the token list '{self.path}'; use: chmod 600 {self.path}")
        try:
            tokens = decode_json(content, _Content).tokens
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"the token list '{self.path}' is malformed: {error}") from error
        if any(token.expires is not None and token.expires.tzinfo is None for token in tokens):
            raise ConfigError(f"the token list '{self.path}' has a time without a time zone")
        return tokens

    def create(self, name: str, valid: timedelta | None, roles: Sequence[str] = ()) -> str:
        """Add a token and return it; it cannot be found out again. Raises AlreadyExistsError, ConfigError."""
        if not _NAME.fullmatch(name) or name in RESERVED_NAMES:
            raise ConfigError(
                f"{name!r} cannot be the name of a token: use letters, digits, '.', '_', '@' and '-',"
                f" and not {' or '.join(sorted(RESERVED_NAMES))}"
            )
        token = secrets.token_urlsafe(32)
        now = datetime.now(UTC)
        with self._changing() as tokens:
            if any(other.name == name for other in tokens):
                raise AlreadyExistsError("token", name)
            tokens.append(
                StoredToken(name, digest(token.encode()), now, now + valid if valid else None, tuple(roles))
            )
        return token

    def revoke(self, name: str) -> None:
        """Remove a token. Raises NotFoundError and ConfigError."""
        with self._changing() as tokens:
            kept = [token for token in tokens if token.name != name]
            if len(kept) == len(tokens):
                raise NotFoundError("token", name, [token.name for token in tokens])
            tokens[:] = kept

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[StoredToken]]:
        """Yield the tokens to change, and replace the file by them as a whole unless the block fails."""
        lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = list(self.read()) if self.path.exists() else []
            yield tokens
            self._replace(msgspec.json.format(msgspec.json.encode(_Content(tuple(tokens)))) + b"\n")
        finally:
            os.close(lock)

    def _replace(self, content: bytes) -> None:
        descriptor, name = tempfile.mkstemp(
            prefix=self.path.name, dir=self.path.parent
        )  # for its owner alone
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink()
            raise


def digest(token: bytes) -> str:
    """Return what is kept of a token. It has 256 random bits: nobody can try them all, however fast."""
    return hashlib.sha256(token).hexdigest()


def parse_duration(text: str) -> timedelta:
    """Return a time such as `30d`, `12h` or `90m`. Raises ConfigError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(f"a time is a whole number with m, h or d, such as 30d, not {text!r}")
    return int(match[1]) * _UNITS[match[2]]
