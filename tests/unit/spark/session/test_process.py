from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from sparkport.errors import UnavailableError
from sparkport.spark.session import process
from sparkport.spark.session.java_home import JavaHome
from sparkport.spark.session.process import Jvm, _command, _environment


def test_secrets_are_not_on_the_command_line() -> None:
    """Everyone on the machine can read the command lines of its processes."""
    command = _command({"spark.hadoop.fs.s3a.secret.key": "hidden", "spark.app.name": "sparkport"})

    assert command[1:] == ["--conf", "spark.app.name=sparkport", "pyspark-shell"]


def test_a_small_runtime_is_started_without_the_module_it_lacks(tmp_path: Path) -> None:
    """All other options reach the real launcher as they are."""
    java = JavaHome(tmp_path / "small java", "21.0.8", has_vectors=False)
    java.executable.parent.mkdir(parents=True)
    java.executable.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    java.executable.chmod(0o755)
    launcher = Path(_environment(java, tmp_path, {})["JAVA_HOME"]) / "bin" / "java"

    options = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "Main"]
    answer = subprocess.run([launcher, *options], capture_output=True, text=True, check=True)
    assert answer.stdout == "-Xmx1g|-Da=b c|Main|"


def test_java_does_not_get_the_settings_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever runs inside Spark can read its environment, and the token is no business of it."""
    monkeypatch.setenv("SPARKPORT_TOKEN", "hidden")
    monkeypatch.setenv("SPARKPORT_CONF", "spark.hadoop.fs.s3a.secret.key=hidden")
    monkeypatch.setenv("SPARKPORT_IVY_SETTINGS", "/settings.xml")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    environment = _environment(JavaHome(tmp_path, "21.0.8", has_vectors=True), tmp_path, {})

    assert "hidden" not in " ".join(environment.values())
    assert environment["SPARKPORT_IVY_SETTINGS"] == "/settings.xml"
    assert environment["AWS_REGION"] == "eu-north-1"


def test_spark_does_not_look_up_the_name_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known address is told, unless the user has another; on a cluster Spark finds its own."""
    java = JavaHome(tmp_path, "21.0.8", has_vectors=True)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    embedded = {"spark.driver.bindAddress": "127.0.0.1"}
    told = _environment(java, tmp_path, embedded)["SPARK_LOCAL_IP"]
    on_a_cluster = _environment(java, tmp_path, {})
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.2")

    assert told == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in on_a_cluster
    assert _environment(java, tmp_path, embedded)["SPARK_LOCAL_IP"] == "127.0.0.2"


def test_the_cause_of_an_end_is_found_in_what_java_said(tmp_path: Path) -> None:
    """The log names the deepest cause, and has all of the output after it."""
    home = tmp_path / "pyspark"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "spark-submit"
    script.write_text(
        "#!/bin/sh\n"
        'echo "Exception in thread main java.lang.ExceptionInInitializerError"\n'
        'echo "Caused by: java.io.IOException: failure to login"\n'
        'echo "Caused by: java.lang.NullPointerException: invalid null input: name"\n'
        'echo "    ... 11 more"\n'
        "exit 1\n"
    )
    script.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "SPARK_HOME", home)
        jvm = Jvm(JavaHome(tmp_path, "21.0.8", has_vectors=True), {}, scratch)
    with pytest.raises(UnavailableError, match="ended with code 1"):
        jvm.connect()
    for _ in range(500):
        if len(jvm.last_lines) == 4:
            break
        time.sleep(0.01)
    jvm.end(1)

    assert jvm.last_cause == "Caused by: java.lang.NullPointerException: invalid null input: name"
