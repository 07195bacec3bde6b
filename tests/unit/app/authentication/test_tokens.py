"""The list of tokens: what it keeps, who may change it, and what happens to a broken one."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sparkport.app.authentication.credential_file import parse_duration
from sparkport.app.authentication.token import TokenFileAuthenticator
from sparkport.app.authentication.tokens import TokenFile
from sparkport.errors import AlreadyExistsError, ConfigError, NotFoundError, UnauthenticatedError
from sparkport.flight.transport.auth import BearerTokens, NobodyElse


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    """Return a list that does not exist yet."""
    return TokenFile(tmp_path / "tokens.json")


def test_the_token_itself_is_not_kept(file: TokenFile) -> None:
    """The file has names and hashes, and belongs to its owner alone."""
    token = file.create("ada", None)

    assert token not in file.path.read_text()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [stored.name for stored in file.read()] == ["ada"]


def test_names_are_unique_and_revoked_ones_are_free(file: TokenFile) -> None:
    """A name stands for one token; after it was revoked it may stand for another, and not for the old one."""
    first = file.create("ada", None)
    with pytest.raises(AlreadyExistsError):
        file.create("ada", None)
    file.revoke("ada")
    with pytest.raises(NotFoundError):
        file.revoke("ada")
    second = file.create("ada", None)
    known = TokenFileAuthenticator(file, NobodyElse())

    assert known.authenticate(f"Bearer {second}") == "ada"
    with pytest.raises(UnauthenticatedError):
        known.authenticate(f"Bearer {first}")


@pytest.mark.parametrize("name", ["", "user", "anonymous", "a b", "../x", "a\n", "-x", "x" * 101])
def test_other_names_are_refused(file: TokenFile, name: str) -> None:
    """A name is short, plain, and not that of the server's own callers."""
    with pytest.raises(ConfigError, match="cannot be the name of a token"):
        file.create(name, None)
    assert not file.path.exists()


def test_changes_at_the_same_time_are_all_kept(file: TokenFile) -> None:
    """Two who add tokens do not undo each other's work."""
    threads = [threading.Thread(target=file.create, args=(f"caller-{number}", None)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {stored.name for stored in file.read()} == {f"caller-{number}" for number in range(20)}
    assert sorted(path.name for path in file.path.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]


def test_expired_token_is_refused(file: TokenFile) -> None:
    """A token is valid until its end, and not a moment longer."""
    token = file.create("ada", timedelta(hours=1))
    (stored,) = file.read()
    assert stored.expires is not None
    end = stored.expires
    now = [end - timedelta(seconds=1)]
    known = TokenFileAuthenticator(file, NobodyElse(), clock=lambda: now[0])

    assert known.authenticate(f"Bearer {token}") == "ada"
    assert known.still_admits("ada", f"Bearer {token}")
    now[0] = end
    assert not known.still_admits("ada", f"Bearer {token}")
    with pytest.raises(UnauthenticatedError, match="has expired"):
        known.authenticate(f"Bearer {token}")


def test_the_hash_is_no_token(file: TokenFile) -> None:
    """Whoever reads the file cannot call with what it says."""
    file.create("ada", None)
    (stored,) = file.read()
    known = TokenFileAuthenticator(file, NobodyElse())
    for given in (stored.sha256, "ada", ""):
        with pytest.raises(UnauthenticatedError):
            known.authenticate(f"Bearer {given}")


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"tokens": [{"name": 1}]}', b'{"other": []}'])
def test_broken_list_lets_nobody_in_until_it_is_repaired(file: TokenFile, content: bytes | None) -> None:
    """A list that is gone or malformed ends all of its tokens, and a server does not start with it."""
    token = file.create("ada", None)
    good = file.path.read_bytes()
    known = TokenFileAuthenticator(file, BearerTokens({"own": "user"}))
    if content is None:
        file.path.unlink()
    else:
        file.path.write_bytes(content)
    with pytest.raises(UnauthenticatedError):
        known.authenticate(f"Bearer {token}")
    with pytest.raises(ConfigError):
        TokenFileAuthenticator(file, NobodyElse())

    assert known.authenticate("Bearer own") == "user"
    file.path.write_bytes(good)
    assert known.authenticate(f"Bearer {token}") == "ada"


def test_list_that_others_can_write_is_refused(file: TokenFile) -> None:
    """Whoever could add a token could let himself in."""
    file.create("ada", None)
    file.path.chmod(0o620)
    with pytest.raises(ConfigError, match="others can write"):
        file.read()


def test_times_without_a_zone_are_refused(file: TokenFile) -> None:
    """It would not be clear when such a token ends."""
    file.create("ada", timedelta(days=1))
    text = file.path.read_text()
    file.path.write_text(text.replace("Z", ""))
    with pytest.raises(ConfigError, match="time zone"):
        file.read()


def test_durations() -> None:
    """A duration is a number and a unit."""
    assert parse_duration("30d") == timedelta(days=30)
    assert parse_duration("12h") == timedelta(hours=12)
    assert parse_duration("90m") == timedelta(minutes=90)
    assert datetime.now(UTC) + parse_duration("99999d") > datetime.now(UTC)
    for text in ("", "0d", "1", "d", "-1d", "1.5h", "1w", "100000d"):
        with pytest.raises(ConfigError, match="such as 30d"):
            parse_duration(text)
