"""Settings in files and in entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkport.config import (
    Setting,
    parse_conf,
    read_config_file,
    read_switches,
    read_ticket_key,
    read_token,
)
from sparkport.errors import ConfigError

KNOWN = {
    "port": Setting("port", int),
    "app": Setting("app_spec", str),
    "token": Setting("token", str),
    "log-level": Setting("log_level", str),
    "transaction-idle": Setting("transaction_idle", float),
    "sample": Setting("sample", bool),
    "adopt": Setting("adopt", bool),
    "no-adopt": Setting("adopt", bool, is_opposite=True),
    "conf": Setting("conf", str),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file of a test goes."""
    return tmp_path / "sparkport.toml"


def test_settings_go_by_the_names_of_the_flags(path: Path) -> None:
    """A dash and an underscore mean the same; entries for Spark may be nested or quoted."""
    path.write_text(
        'port = 9000\nlog-level = "debug"\ntransaction_idle = 60\napp = "shop:app"\n'
        '[conf]\nspark.executor.memory = "2g"\n"spark.sql.ansi.enabled" = true\n'
    )

    assert read_config_file(path, KNOWN) == {
        "port": 9000,
        "log_level": "debug",
        "transaction_idle": 60,
        "app_spec": "shop:app",
        "conf": ["spark.executor.memory=2g", "spark.sql.ansi.enabled=true"],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("adopt = false", False),
        ("no-adopt = true", False),
        ("no_adopt = true", False),
        ("no-adopt = false", True),
        ("adopt = false\nno-adopt = true", False),
    ],
)
def test_switch_may_be_named_by_either_flag(path: Path, text: str, expected: bool) -> None:
    """What the second flag of a pair switches off is the first one."""
    path.write_text(text)

    assert read_config_file(path, KNOWN) == {"adopt": expected, "conf": []}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "unknown setting 'prot'. Did you mean 'port'?"),
        ("log_levle = 'info'", "unknown setting 'log_levle'. Did you mean 'log-level'?"),
        ("Port = 1", "unknown setting 'Port'. Did you mean 'port'?"),
        ("no-sample = true", "unknown setting 'no-sample'. Did you mean 'sample'?"),
        ("[colours]\nred = 1", "unknown setting 'colours'"),
        ('"a\\nb" = 1', "unknown setting 'a\\nb'"),
        ("port = '1'", "port must be a whole number, not text"),
        ("port = true", "port must be a whole number, not true or false"),
        ("port = 1.5", "port must be a whole number, not a number with a point"),
        ("transaction-idle = 'long'", "transaction-idle must be a number, not text"),
        ("token = 5", "token must be text, not a whole number"),
        ("token = ['t']", "token must be text, not a list"),
        ("token = 2026-01-01", "token must be text, not a date or a time"),
        ("app.name = 'shop'", "app must be text, not a table"),
        ("no-adopt = 'yes'", "no-adopt must be true or false, not text"),
        ("adopt = 1", "adopt must be true or false, not a whole number"),
        ("adopt = true\nno-adopt = true", "adopt and no-adopt contradict each other"),
        ("log-level = 'info'\nlog_level = 'debug'", "log-level and log_level contradict each other"),
        (
            "[conf]\nspark.jars = ['a', 'b']",
            "conf.spark.jars must be text, a number or true or false, not a list",
        ),
    ],
)
def test_setting_that_means_nothing_is_told(path: Path, text: str, message: str) -> None:
    """The error names the file and the key, and never the value, which may be a secret."""
    path.write_text(text)

    with pytest.raises(ConfigError) as refused:
        read_config_file(path, KNOWN)
    assert str(refused.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"SPARKPORT_NO_ADOPT": ""}, {}),
        ({"SPARKPORT_NO_ADOPT": "1"}, {"adopt": False}),
        ({"SPARKPORT_NO_ADOPT": "Yes"}, {"adopt": False}),
        ({"SPARKPORT_NO_ADOPT": "off"}, {"adopt": True}),
        ({"SPARKPORT_NO_ADOPT": "true", "SPARKPORT_ADOPT": "0"}, {"adopt": False}),
        ({"SPARKPORT_SAMPLE": "1", "SPARKPORT_PORT": "1"}, {}),
    ],
)
def test_variables_switch_off_too(variables: dict[str, str], expected: dict[str, bool]) -> None:
    """Both flags of a pair have a variable; those of other flags are not looked at."""
    assert read_switches(variables, KNOWN) == expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SPARKPORT_NO_ADOPT": "maybe"}, "SPARKPORT_NO_ADOPT must be true or false, not 'maybe'"),
        (
            {"SPARKPORT_NO_ADOPT": "1", "SPARKPORT_ADOPT": "1"},
            "SPARKPORT_ADOPT and SPARKPORT_NO_ADOPT contradict each other",
        ),
    ],
)
def test_variable_that_means_nothing_is_told(variables: dict[str, str], message: str) -> None:
    """The error names the variables."""
    with pytest.raises(ConfigError) as refused:
        read_switches(variables, KNOWN)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ["port = ", "conf = 3", "\udcff"])
def test_damaged_file_is_told(path: Path, text: str) -> None:
    """The error names the file."""
    path.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(ConfigError, match=r"sparkport\.toml: "):
        read_config_file(path, KNOWN)


def test_missing_file_is_told(tmp_path: Path) -> None:
    """A file that is asked for must be there."""
    with pytest.raises(ConfigError, match=r"No such file"):
        read_config_file(tmp_path / "none.toml", KNOWN)


def test_entries_are_key_and_value() -> None:
    """A value may contain the sign again."""
    assert parse_conf(["a.b=c", " d = e=f "]) == {"a.b": "c", "d": "e=f"}


@pytest.mark.parametrize("entry", ["nothing", "=value", ""])
def test_entry_without_a_key_is_told(entry: str) -> None:
    """What cannot be a setting is no setting."""
    with pytest.raises(ConfigError, match=r"^--conf must be key=value"):
        parse_conf([entry])


@pytest.mark.parametrize("text", ["secret", "secret\n", "  secret \r\nmore\n"])
def test_token_is_the_first_line_of_its_file(tmp_path: Path, text: str) -> None:
    """White space around it, and whatever follows, is no part of it."""
    file = tmp_path / "token"
    file.write_bytes(text.encode())
    file.chmod(0o600)

    assert read_token(None, file, authenticate=True) == "secret"


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (b"", 0o600, "has an empty first line"),
        (b"\nsecret", 0o600, "has an empty first line"),
        (b"\xff\xfe", 0o600, "cannot be read: it is not text"),
        (b"x" * 5000, 0o600, "has more than 4096 bytes in its first line"),
        (b"secret", 0o644, "use: chmod 600"),
        (b"secret", 0o640, "use: chmod 600"),
    ],
)
def test_token_file_that_is_no_secret_is_refused(
    tmp_path: Path, content: bytes, mode: int, reason: str
) -> None:
    """An empty token lets everybody in, and so does one that everybody can read."""
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(mode)

    with pytest.raises(ConfigError) as caught:
        read_token(None, file, authenticate=True)
    assert reason in str(caught.value)
    assert str(file) in str(caught.value)


def test_token_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The message names the file and says why."""
    file = tmp_path / "nowhere"

    with pytest.raises(ConfigError) as caught:
        read_token(None, file, authenticate=True)
    assert str(caught.value) == f"the token file '{file}' cannot be read: No such file or directory"
    with pytest.raises(ConfigError, match=r"Is a directory$"):
        read_token(None, tmp_path, authenticate=True)


def test_a_ticket_key_is_long_and_nobody_elses(tmp_path: Path) -> None:
    """The first line stands for a key of 32 bytes; a short one, or one that others can read, is refused."""
    file = tmp_path / "key"
    file.write_text("k" * 44 + "\nmore\n")
    file.chmod(0o600)
    key = read_ticket_key(file)
    file.write_text("k" * 44)

    assert len(key) == 32
    assert read_ticket_key(file) == key
    file.write_text("k" * 31)
    with pytest.raises(ConfigError, match="fewer than 32 characters"):
        read_ticket_key(file)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read the ticket key file"):
        read_ticket_key(file)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_ticket_key(tmp_path / "none")
