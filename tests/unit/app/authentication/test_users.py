"""Users with passwords: what is kept of them, how they are recognised, and how often one may be wrong."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import argon2
import pytest

from sparkport.app.authentication import passwords, users
from sparkport.app.authentication.failure_limit import FailureLimit, network_of
from sparkport.app.authentication.password import UserFileAuthenticator
from sparkport.app.authentication.passwords import PasswordChecks
from sparkport.app.authentication.users import UserFile
from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import (
    AlreadyExistsError,
    ConfigError,
    LimitExceededError,
    NotFoundError,
    UnauthenticatedError,
)
from sparkport.flight.transport.auth import BearerTokens, NobodyElse, basic_header

PASSWORD = "correct horse battery"
ADA = basic_header("ada", PASSWORD)
WRONG = basic_header("ada", "wrong horse battery")
HERE, ELSEWHERE = "ipv4:192.0.2.1:5000", "ipv4:192.0.2.2:5000"


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hashes take no time."""
    quick = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(users, "HASHER", quick)
    monkeypatch.setattr(passwords, "HASHER", quick)


class Counted(PasswordChecks):
    """Counts how often a hash is computed."""

    hashes = 0

    def is_right(self, stored: str | None, password: bytes, before: object) -> bool:
        def begin() -> None:
            assert callable(before)
            before()
            self.hashes += 1

        return super().is_right(stored, password, begin)


@pytest.fixture
def file(tmp_path: Path) -> UserFile:
    """Return a list with one user."""
    made = UserFile(tmp_path / "users.json")
    made.create("ada", PASSWORD, None, ["analyst"])
    return made


class Clock:
    """A clock that stands still."""

    seconds = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the limit on failures."""
    return Clock()


@pytest.fixture
def known(file: UserFile, clock: Clock) -> UserFileAuthenticator:
    """Return who knows the users of the list, and one token."""
    made = UserFileAuthenticator(file, BearerTokens({"own": "user"}), failures=FailureLimit(clock))
    made._checks = Counted()
    return made


def hashes(known: UserFileAuthenticator) -> int:
    """Return how often a password was hashed."""
    assert isinstance(known._checks, Counted)
    return known._checks.hashes


def test_a_user_gets_in_with_name_and_password(known: UserFileAuthenticator) -> None:
    """The principal has the name, the roles, and how it came in; the token is valid beside it."""
    principal = known.authenticate(ADA)

    assert principal == "ada"
    assert isinstance(principal, Principal)
    assert (principal.roles, principal.way_in) == (frozenset({"analyst"}), WayIn.PASSWORD)
    assert known.authenticate("Bearer own") == "user"
    assert known.authenticate(basic_header("anyone", "own")) == "user"


def test_the_password_is_kept_as_a_hash(file: UserFile) -> None:
    """The file has argon2id hashes, belongs to its owner alone, and is no way in itself."""
    text = file.path.read_text()
    known = UserFileAuthenticator(file, NobodyElse())

    assert PASSWORD not in text
    assert "$argon2id$" in text
    assert file.path.stat().st_mode & 0o777 == 0o600
    for header in (
        f"Bearer {PASSWORD}",
        f"Bearer {file.read()[0].argon2id}",
        basic_header("ada", file.read()[0].argon2id),
        basic_header("", PASSWORD),
        basic_header("ADA", PASSWORD),
        basic_header("ada", ""),
        "Basic !!!",
        None,
    ):
        with pytest.raises(UnauthenticatedError):
            known.authenticate(header)


def test_unknown_users_and_wrong_passwords_look_the_same(known: UserFileAuthenticator) -> None:
    """Both get one text, after the same work."""
    texts = set()
    for count, header in enumerate(
        (WRONG, basic_header("nobody", PASSWORD), basic_header("x", "y" * 2000)), 1
    ):
        with pytest.raises(UnauthenticatedError) as refused:
            known.authenticate(header)
        texts.add(str(refused.value))
        assert hashes(known) == count

    assert texts == {"the user name or the password is not valid"}


def test_a_right_password_is_hashed_once(known: UserFileAuthenticator, file: UserFile) -> None:
    """It is remembered, not as itself, until it is another."""
    for _ in range(5):
        known.authenticate(ADA)
    file.create("bob", PASSWORD, None)
    known.authenticate(ADA)
    remembered = known._checks._right

    assert hashes(known) == 1
    assert len(remembered) == 1
    assert all(PASSWORD.encode() not in one for one in remembered)
    with pytest.raises(UnauthenticatedError):
        known.authenticate(WRONG)


def test_what_is_remembered_is_bounded() -> None:
    """The password that was used longest ago is forgotten first."""
    checks = PasswordChecks(max_remembered=2)
    stored = [users.HASHER.hash(text) for text in "abc"]
    for text, one in zip("abc", stored, strict=True):
        assert checks.is_right(one, text.encode(), lambda: None)

    assert [checks.remembers(one, text.encode()) for text, one in zip("abc", stored, strict=True)] == [
        False,
        True,
        True,
    ]


def test_few_passwords_are_checked_at_the_same_time() -> None:
    """Two are checked, some wait, and the others are told to come back, without a hash."""
    checks = PasswordChecks()
    stored = users.HASHER.hash(PASSWORD)
    running, most, lock, go = [0], [0], threading.Lock(), threading.Event()

    def begin() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        go.wait(30)
        with lock:
            running[0] -= 1

    threads = [
        threading.Thread(target=checks.is_right, args=(stored, b"%d" % number, begin)) for number in range(64)
    ]
    for thread in threads:
        thread.start()
    while checks._room._value:
        threading.Event().wait(0.001)
    with pytest.raises(LimitExceededError, match="too many passwords"):
        checks.is_right(stored, PASSWORD.encode(), begin)
    go.set()
    for thread in threads:
        thread.join(30)

    assert most == [2]
    assert checks.is_right(stored, PASSWORD.encode(), lambda: None)


def test_changes_count_at_once(known: UserFileAuthenticator, file: UserFile) -> None:
    """A new password ends the old one and its sessions, and a removed user is gone; so are their calls."""
    known.authenticate(ADA)
    session = known.session_token(ADA)
    assert session is not None
    assert known.authenticate(f"Bearer {session}") == "ada"
    assert known.still_admits("ada", ADA)
    file.set_password("ada", "another password")
    new = basic_header("ada", "another password")

    for header in (ADA, f"Bearer {session}"):
        assert not known.still_admits("ada", header)
        with pytest.raises(UnauthenticatedError):
            known.authenticate(header)
    assert known.authenticate(new) == "ada"
    file.remove("ada")
    assert not known.still_admits("ada", new)
    with pytest.raises(UnauthenticatedError):
        known.authenticate(new)


def test_a_user_made_again_does_not_inherit_sessions(known: UserFileAuthenticator, file: UserFile) -> None:
    """The same name with the same password is another user."""
    known.authenticate(ADA)
    session = known.session_token(ADA)
    file.remove("ada")
    file.create("ada", PASSWORD, None)

    with pytest.raises(UnauthenticatedError, match="session has ended"):
        known.authenticate(f"Bearer {session}")


def test_running_calls_of_a_forgotten_password_go_on(known: UserFileAuthenticator) -> None:
    """What is not remembered is checked again, and counts as no failure."""
    known.authenticate(ADA)
    known._checks._right.clear()

    assert known.still_admits("ada", ADA)
    for _ in range(50):
        assert not known.still_admits("ada", WRONG)
    assert known.authenticate(ADA) == "ada"


def test_session_tokens_end_and_cannot_be_made_up(file: UserFile) -> None:
    """They are valid for twelve hours, for their user, on servers with the same key."""
    now = [datetime.now(UTC)]

    def knowing(key: bytes | None) -> UserFileAuthenticator:
        return UserFileAuthenticator(file, NobodyElse(), key=key, clock=lambda: now[0])

    file.create("bob", PASSWORD, None)
    first, second, other = knowing(b"k"), knowing(b"k"), knowing(None)
    first.authenticate(ADA)
    session = str(first.session_token(ADA))
    prefix, name, end, signature = session.split(".")
    bob = first.session_token(basic_header("bob", PASSWORD))

    assert bob is None  # he has not logged in
    assert second.authenticate(f"Bearer {session}") == "ada"
    for forged in (
        f"{prefix}.Ym9i.{end}.{signature}",
        f"{prefix}.{name}.{int(end) + 1}.{signature}",
        f"{prefix}.{name}.{end}.{signature[:-1]}",
        f"{prefix}.{name}.{end}.é",
        f"{prefix}.é.{end}.{signature}",
        f"{prefix}.{name}.x.{signature}",
        f"{prefix}.{name}.{end}",
        f"{prefix}...",
    ):
        with pytest.raises(UnauthenticatedError):
            first.authenticate(f"Bearer {forged}")
    with pytest.raises(UnauthenticatedError):
        other.authenticate(f"Bearer {session}")
    now[0] += timedelta(hours=12)
    with pytest.raises(UnauthenticatedError, match="session has ended"):
        first.authenticate(f"Bearer {session}")


def test_expired_user_is_refused(file: UserFile) -> None:
    """A user is valid until the end, as are sessions and running calls; only the password tells why."""
    file.create("eve", PASSWORD, timedelta(hours=1))
    end = file.read()[1].expires
    assert end is not None
    now = [end - timedelta(seconds=1)]
    known = UserFileAuthenticator(file, NobodyElse(), clock=lambda: now[0])
    header = basic_header("eve", PASSWORD)
    assert known.authenticate(header) == "eve"
    session = known.session_token(header)
    now[0] = end

    assert not known.still_admits("eve", header)
    with pytest.raises(UnauthenticatedError, match="has expired"):
        known.authenticate(header)
    with pytest.raises(UnauthenticatedError, match="session has ended"):
        known.authenticate(f"Bearer {session}")
    with pytest.raises(UnauthenticatedError, match="name or the password"):
        known.authenticate(basic_header("eve", "wrong"))


def test_failures_make_the_next_attempt_wait(known: UserFileAuthenticator, clock: Clock) -> None:
    """After ten failures no password is hashed for a while, which grows; a right one is refused then too."""
    pauses = []
    for _ in range(10):
        with pytest.raises(UnauthenticatedError):
            known.authenticate_from(WRONG, HERE)
    for _ in range(4):
        with pytest.raises(LimitExceededError, match="from this address; the password was not checked"):
            known.authenticate_from(ADA, HERE)
        begun = clock.seconds
        while True:
            clock.seconds += 0.5
            try:
                known.authenticate_from(WRONG, HERE)
            except LimitExceededError:
                continue
            except UnauthenticatedError:
                break
        pauses.append(clock.seconds - begun)

    assert hashes(known) == 14
    assert pauses == [1.0, 2.0, 4.0, 7.5]
    clock.seconds += 3600
    assert known.authenticate_from(ADA, HERE) == "ada"


def test_the_limit_is_by_name_and_by_address(known: UserFileAuthenticator, file: UserFile) -> None:
    """Guesses at one name from many addresses are slowed down, and so are those of one address at many."""
    file.create("bob", PASSWORD, None)
    for number in range(10):
        with pytest.raises(UnauthenticatedError):
            known.authenticate_from(WRONG, f"ipv4:198.51.100.{number}:1")
    with pytest.raises(LimitExceededError, match="for this user name"):
        known.authenticate_from(ADA, ELSEWHERE)
    for number in range(10):
        with pytest.raises(UnauthenticatedError):
            known.authenticate_from(basic_header(f"n{number}", "x"), HERE)
    with pytest.raises(LimitExceededError, match="from this address"):
        known.authenticate_from(basic_header("bob", PASSWORD), HERE)

    assert known.authenticate_from(basic_header("bob", PASSWORD), ELSEWHERE) == "bob"


def test_failures_of_others_keep_nobody_out(known: UserFileAuthenticator) -> None:
    """Tokens, sessions, and passwords that were right before are never refused."""
    known.authenticate_from(ADA, HERE)
    session = known.session_token(ADA)
    for _ in range(10):
        with pytest.raises(UnauthenticatedError):
            known.authenticate_from(WRONG, HERE)
    with pytest.raises(LimitExceededError):
        known.authenticate_from(WRONG, HERE)

    assert known.authenticate_from("Bearer own", HERE) == "user"
    assert known.authenticate_from(basic_header("ada", "own"), HERE) == "user"
    assert known.authenticate_from(f"Bearer {session}", HERE) == "ada"
    assert known.authenticate_from(ADA, HERE) == "ada"


def test_log_ins_that_succeed_cost_nothing(known: UserFileAuthenticator, file: UserFile) -> None:
    """Many users behind one address log in one after the other."""
    for number in range(30):
        file.create(f"u{number}", PASSWORD, None)
        assert known.authenticate_from(basic_header(f"u{number}", PASSWORD), HERE) == f"u{number}"


def test_the_memory_of_failures_is_bounded() -> None:
    """A stranger with many names and addresses does not fill the memory."""
    limit = FailureLimit(max_keys=100)
    for number in range(1000):
        limit.begin(f"ipv4:10.0.{number // 250}.{number % 250}:1", str(number) + "n" * 10_000)

    assert len(limit._failures) <= 100
    assert max(len(key) for _, key in limit._failures) <= 100


@pytest.mark.parametrize(
    ("connection", "network"),
    [
        ("ipv4:192.0.2.1:5000", "192.0.2.1"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:5000", "2001:db8:1:2::/64"),
        ("ipv6:[::1]:5000", "::/64"),
        ("ipv6:[::ffff:192.0.2.1]:5000", "192.0.2.1"),
        ("unix:/run/x", "unix:/run/x"),
        ("", ""),
    ],
)
def test_the_port_is_not_part_of_an_address(connection: str, network: str) -> None:
    """Whoever connects again is the same; of IPv6 a whole network has one owner."""
    assert network_of(connection) == network


@pytest.mark.parametrize("name", ["", "user", "anonymous", "a b", "a:b", "../x", "-x", "x" * 101])
def test_other_names_are_refused(file: UserFile, name: str) -> None:
    """A name is short, plain, and not that of the server's own callers."""
    with pytest.raises(ConfigError, match="cannot be the name of a user"):
        file.create(name, PASSWORD, None)


def test_mistakes_change_nothing(file: UserFile) -> None:
    """Short and endless passwords, names that are taken, and names that are not there."""
    before = file.path.read_bytes()
    with pytest.raises(ConfigError, match="at least 12 characters"):
        file.create("bob", "short", None)
    with pytest.raises(ConfigError, match="at most 1024 bytes"):
        file.set_password("ada", "x" * 1025)
    with pytest.raises(AlreadyExistsError):
        file.create("ada", "another password", None)
    with pytest.raises(NotFoundError):
        file.set_password("bob", "another password")
    with pytest.raises(NotFoundError):
        file.remove("bob")

    assert file.path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None,
        lambda _: b"{",
        lambda text: text.replace(b"$argon2id$", b"$argon2i$"),
        lambda text: text.replace(b"$argon2id$", b"plain"),
        lambda text: text.replace(b"m=8,", b"m=99999999,"),
        lambda text: text.replace(
            b'"users": [', b'"users": [' + text[text.index(b"[") + 1 : text.index(b"]\n}")].rstrip() + b","
        ),
    ],
    ids=["gone", "malformed", "other kind", "no hash", "huge", "twice"],
)
def test_broken_list_lets_nobody_in_until_it_is_repaired(
    known: UserFileAuthenticator, file: UserFile, change: object
) -> None:
    """A list that is gone, malformed or dangerous ends all of its users, and a server does not start."""
    assert callable(change)
    good = file.path.read_bytes()
    known.authenticate(ADA)
    content = change(good)
    if content is None:
        file.path.unlink()
    else:
        file.path.write_bytes(content)

    with pytest.raises(UnauthenticatedError):
        known.authenticate(ADA)
    with pytest.raises(ConfigError):
        UserFileAuthenticator(file, NobodyElse())
    assert known.authenticate("Bearer own") == "user"
    file.path.write_bytes(good)
    assert known.authenticate(ADA) == "ada"


def test_list_that_others_can_write_is_refused(file: UserFile) -> None:
    """Whoever could add a user could let himself in."""
    file.path.chmod(0o602)
    with pytest.raises(ConfigError, match="others can write the user list"):
        file.read()
