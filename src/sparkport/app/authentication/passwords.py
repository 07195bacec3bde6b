"""Checks of passwords, which are slow on purpose: few at the same time, and each right one only once."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable

import argon2

from sparkport.app.authentication.users import HASHER, MAX_PASSWORD_BYTES
from sparkport.errors import LimitExceededError

__all__ = ["PasswordChecks"]

_MAX_RUNNING = 2  # each takes a core, and the memory of a hash
_MAX_WAITING = 62
_MAX_REMEMBERED = 10_000


class PasswordChecks:
    """Compares passwords with their hashes. Safe to use from many threads.

    Of a right password a keyed hash is remembered, together with the stored one: it ends with that.
    """

    def __init__(self, max_remembered: int = _MAX_REMEMBERED) -> None:
        self._max_remembered = max_remembered
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._right: OrderedDict[bytes, None] = OrderedDict()  # what was used longest ago first
        self._room = threading.BoundedSemaphore(_MAX_RUNNING + _MAX_WAITING)
        self._running = threading.BoundedSemaphore(_MAX_RUNNING)
        self._hash_of_nobody = HASHER.hash(secrets.token_bytes(32))

    def remembers(self, stored: str, password: bytes) -> bool:
        """Return at once whether the password is known to be right."""
        digest = self._digest(stored, password)
        with self._lock:
            if digest not in self._right:
                return False
            self._right.move_to_end(digest)
            return True

    def is_right(self, stored: str | None, password: bytes, before: Callable[[], None]) -> bool:
        """Compare a password with the stored hash; None is that of nobody, and takes as long.

        `before` is called if the work has to be done, at most two at the same time, and may raise. Raises
        LimitExceededError if too many others wait.
        """
        if not self._room.acquire(blocking=False):
            raise LimitExceededError("the server is checking too many passwords; try again in a moment")
        try:
            with self._running:
                # Another call with the same password may have been first.
                if stored is not None and self.remembers(stored, password):
                    return True
                before()
                is_right = _verify(stored or self._hash_of_nobody, password) and stored is not None
        finally:
            self._room.release()
        if is_right and stored is not None:
            self._remember(self._digest(stored, password))
        return is_right

    def _remember(self, digest: bytes) -> None:
        with self._lock:
            self._right[digest] = None
            while len(self._right) > self._max_remembered:
                self._right.popitem(last=False)

    def _digest(self, stored: str, password: bytes) -> bytes:
        # The stored hash has no zero byte.
        return hmac.digest(self._key, stored.encode() + b"\0" + password, hashlib.sha256)


def _verify(stored: str, password: bytes) -> bool:
    if len(password) > MAX_PASSWORD_BYTES:
        password = b""  # no user has it, and it takes as long
    try:
        return HASHER.verify(stored, password)
    except argon2.exceptions.VerificationError:
        return False
