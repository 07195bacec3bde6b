"""A file that says who gets in: read as a whole, replaced as a whole, and not for others to write."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec
import structlog

from sparkport.errors import AlreadyExistsError, ConfigError, NotFoundError
from sparkport.toolkit.file_stamps import FileStamp, file_stamp

__all__ = [
    "RESERVED_NAMES",
    "CredentialFile",
    "StoredCredential",
    "WatchedCredentials",
    "end_after",
    "parse_duration",
]

_log = structlog.get_logger("sparkport")

RESERVED_NAMES = frozenset({"anonymous", "user"})  # the principals of --no-auth and of --token
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class StoredCredential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose it is, with which roles, since when and until when."""

    name: str
    created: datetime
    expires: datetime | None = None
    roles: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What the credential is looked up by."""
        return self.name

    def is_valid_at(self, now: datetime) -> bool:
        """Return whether the credential has not expired."""
        return self.expires is None or now < self.expires


C = TypeVar("C", bound=StoredCredential)


class CredentialFile(ABC, Generic[C]):
    """Reads and changes the file; several processes may do so at the same time."""

    kind: ClassVar[str]
    """One of what is in the file, such as `token`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def _decode(self, content: bytes) -> tuple[C, ...]:
        """Return what is in the file. Raises msgspec.DecodeError and ConfigError."""

    @abstractmethod
    def _encode(self, stored: Sequence[C]) -> bytes:
        """Return the content of the file."""

    def read(self) -> tuple[C, ...]:
        """Return the entries. Raises ConfigError, also for a file that others could add one to."""
        list_name = f"the {self.kind} list '{self.path}'"
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read()
        except OSError as error:
            raise ConfigError(f"{list_name} cannot be read: {error.strerror}") from error
        if status.st_mode & _WRITABLE:
            raise ConfigError(f"others can write {list_name}; use: chmod 600 {self.path}")
        try:
            stored = self._decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{list_name} is malformed: {error}") from error
        if any(one.expires is not None and one.expires.tzinfo is None for one in stored):
            raise ConfigError(f"{list_name} has a time without a time zone")
        return stored

    def _add(self, new: C) -> None:
        """Add an entry. Raises AlreadyExistsError and ConfigError."""
        with self._changing() as stored:
            if any(other.name == new.name for other in stored):
                raise AlreadyExistsError(self.kind, new.name)
            stored.append(new)

    def _remove(self, name: str) -> None:
        """Remove an entry. Raises NotFoundError and ConfigError."""
        with self._changing() as stored:
            del stored[self._index(stored, name)]

    def _index(self, stored: Sequence[C], name: str) -> int:
        names = [one.name for one in stored]
        if name not in names:
            raise NotFoundError(self.kind, name, names)
        return names.index(name)

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name) or name in RESERVED_NAMES:
            raise ConfigError(
                f"{name!r} cannot be the name of a {self.kind}: use letters, digits, '.', '_', '@' and '-',"
                f" and not {' or '.join(sorted(RESERVED_NAMES))}"
            )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[C]]:
        """Yield the entries to change, and replace the file by them as a whole unless the block fails."""
        lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stored = list(self.read()) if self.path.exists() else []
            yield stored
            self._replace(msgspec.json.format(self._encode(stored)) + b"\n")
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


class WatchedCredentials(Generic[C]):
    """The entries of a file as it is at the moment.

    A file that cannot be read lets nobody in: it may have been changed to keep somebody out.
    """

    def __init__(self, file: CredentialFile[C]) -> None:
        """Read the file. Raises ConfigError."""
        self._file = file
        self._lock = threading.Lock()
        self._stamp = file_stamp(file.path)
        self._by_key = self._read()

    def current(self) -> Mapping[str, C]:
        """Return the entries by their keys."""
        stamp = file_stamp(self._file.path)
        if stamp != self._stamp:
            with self._lock:
                self._reload(stamp)
        return self._by_key

    def _read(self) -> Mapping[str, C]:
        return {stored.key: stored for stored in self._file.read()}

    def _reload(self, stamp: FileStamp | None) -> None:
        if stamp == self._stamp:
            return
        kind = self._file.kind
        try:
            self._by_key = self._read()
            _log.info(f"{kind}s reloaded", file=str(self._file.path), **{f"{kind}s": len(self._by_key)})
        except ConfigError as error:
            self._by_key = {}
            _log.error(f"{kind}s not reloaded, none is valid", error=str(error))
        self._stamp = stamp


def end_after(valid: timedelta | None) -> tuple[datetime, datetime | None]:
    """Return the time now, and that of the end of what is valid for a while, None for ever."""
    now = datetime.now(UTC)
    return now, None if valid is None else now + valid


def parse_duration(text: str) -> timedelta:
    """Return a time such as `30d`, `12h` or `90m`. Raises ConfigError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(f"a time is a whole number with m, h or d, such as 30d, not {text!r}")
    return int(match[1]) * _UNITS[match[2]]
