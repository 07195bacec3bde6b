from __future__ import annotations

import errno
import inspect
import os
from types import ModuleType

import pyspark.errors
import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, SparkRuntimeException
from pyspark.errors.exceptions import base, captured, connect
from pyspark.errors.exceptions.connect import (
    AnalysisException,
    ParseException,
    SparkConnectGrpcException,
    SparkException,
    UnknownException,
)

from sparkport.errors import (
    AlreadyExistsError,
    CancelledError,
    ConflictError,
    ConstraintViolationError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    SparkportError,
    UnavailableError,
)
from sparkport.spark.errors import (
    DECISIONS,
    MissingDataFileError,
    RejectedStatementError,
    clean_message,
    client_statement_error,
    is_refusal,
    is_session_lost,
    translate,
    writing,
)

MISSING = "a data file of table 's.t' was not found: the log names it, but it is missing from the storage"
DAMAGED = "a data file of table 's.t' cannot be read: it is damaged, or not what the log says"
READ_ONLY = "the server cannot write to its storage: it is read-only, or access is denied"


@pytest.mark.parametrize("module", [pyspark.errors, base, captured, connect])
def test_every_exception_of_pyspark_has_a_decision(module: ModuleType) -> None:
    """A class that a new PySpark adds must be decided about here."""
    classes = {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, PySparkException) and not name.startswith("Base")
    }

    assert classes
    assert classes - set(DECISIONS) == set()


def test_no_decision_is_about_a_class_that_is_gone() -> None:
    """The table holds what PySpark has, and nothing else."""
    known = {name for module in (pyspark.errors, base, captured, connect) for name in vars(module)}

    assert set(DECISIONS) - known == set()


def test_a_missing_table_is_named() -> None:
    """Spark's quoting is left out."""
    error = AnalysisException(
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `a`.`b` cannot be found. SQLSTATE: 42P01",
        errorClass="TABLE_OR_VIEW_NOT_FOUND",
        messageParameters={"relationName": "`spark_catalog`.`a`.`b`"},
        sql_state="42P01",
    )

    ours = translate(error)
    assert isinstance(ours, NotFoundError)
    assert str(ours) == "table 'a.b' not found"


def test_an_existing_table_is_named() -> None:
    """CREATE of what is there is told as such."""
    error = AnalysisException(
        "[TABLE_OR_VIEW_ALREADY_EXISTS] ...",
        errorClass="TABLE_OR_VIEW_ALREADY_EXISTS",
        messageParameters={"relationName": "`a`.`b`"},
        sql_state="42P07",
    )

    ours = translate(error)
    assert isinstance(ours, AlreadyExistsError)
    assert str(ours) == "table 'a.b' already exists"


SYNTAX_ERROR = ParseException(
    "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1)\n\n== SQL ==\nx",
    errorClass="PARSE_SYNTAX_ERROR",
    messageParameters={"error": "'selec'", "hint": ""},
    sql_state="42601",
)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SYNTAX_ERROR, "Syntax error at or near 'selec'"),
        (
            AnalysisException(
                "[DATATYPE_MISMATCH] Cannot resolve. SQLSTATE: 42K09",
                errorClass="DATATYPE_MISMATCH",
                sql_state="42K09",
            ),
            "Cannot resolve",
        ),
        (AnalysisException("no condition at all"), "no condition at all"),
    ],
)
def test_rejected_sql_is_a_fault_of_the_server_unless_a_client_wrote_it(
    error: Exception, message: str
) -> None:
    """The server writes nearly all SQL itself: only who runs a client's may blame the request."""
    ours = translate(error)
    assert ours is not None
    assert type(ours) is RejectedStatementError
    assert not isinstance(ours, SparkportError)
    assert str(ours) == message
    assert is_refusal(ours)

    of_client = client_statement_error(ours)
    assert type(of_client) is InvalidRequestError
    assert str(of_client) == message


def test_what_delta_rejects_is_the_callers() -> None:
    """Delta's conditions are about what is asked of the table, not about the SQL that asks it."""
    error = AnalysisException(
        "[DELTA_TIMESTAMP_INVALID] The provided timestamp (soon) cannot be converted. SQLSTATE: 42816",
        errorClass="DELTA_TIMESTAMP_INVALID",
        sql_state="42816",
    )

    ours = translate(error)
    assert type(ours) is InvalidRequestError
    assert str(ours) == "The provided timestamp (soon) cannot be converted"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] Files were added",
            ConflictError,
            "conflict on table 's.t': another writer changed it at the same time; run the statement again",
        ),
        (
            "org.apache.spark.sql.delta.MetadataChangedException: changed",
            ConflictError,
            "conflict on table 's.t': another writer changed it at the same time; run the statement again",
        ),
        (
            "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled part of group x",
            CancelledError,
            "the call was cancelled",
        ),
        ("java.io.IOException: No space left on device", LimitExceededError, "the server's storage is full"),
        ("java.io.IOException: File too large", LimitExceededError, "the server's storage is full"),
        ("java.io.FileNotFoundException: /data/x (Read-only file system)", PreconditionError, READ_ONLY),
        ("java.nio.file.ReadOnlyFileSystemException", PreconditionError, READ_ONLY),
        ("java.io.IOException: Mkdirs failed to create file:/data/t", PreconditionError, READ_ONLY),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            LimitExceededError,
            "Spark does not have enough memory for this statement",
        ),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] File does not exist: file:/data/x.parquet",
            MissingDataFileError,
            MISSING,
        ),
        ("FileNotFoundError: [Errno 2] Failed to open local file '/data/x'", MissingDataFileError, MISSING),
        (
            "OSError: When reading x: AWS Error NO_SUCH_KEY during GetObject operation: gone",
            MissingDataFileError,
            MISSING,
        ),
        (
            "OSError: Couldn't deserialize thrift: TProtocolException: Invalid data",
            PreconditionError,
            DAMAGED,
        ),
        ("OSError: Corrupt snappy compressed data.", PreconditionError, DAMAGED),
        ("pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer", PreconditionError, DAMAGED),
        *(
            (text, UnavailableError, "the storage of table 's.t' does not answer; try again")
            for text in (
                "OSError: x: AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7",
                "OSError: AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate.",
                "OSError: google::cloud::Status(UNAVAILABLE: Retry policy exhausted)",
                "OSError: [Errno 5] Error reading bytes from file. Detail: [errno 5] Input/output error",
                "ConnectionResetError: [Errno 104] Connection reset by peer",
                "[FAILED_READ_FILE.NO_HINT] x\nCaused by: software.amazon.SdkClientException",
                "java.net.UnknownHostException: store.example",
            )
        ),
        (
            "java.io.FileNotFoundException: /data/t/part-0.parquet (Permission denied)",
            PermissionDeniedError,
            "the server has no access to the files of the table",
        ),
        (
            "[DELTA_UNSUPPORTED_FEATURES_FOR_READ] Unsupported Delta read feature: table file:/data/t",
            PreconditionError,
            "table 's.t' needs a newer version of Delta than this Spark has",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            UnavailableError,
            "a Spark worker process died; try again",
        ),
        (
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (a > 0) violated by row: - a : 1",
            ConstraintViolationError,
            "CHECK constraint of table 's.t' failed",
        ),
        (
            "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: a",
            ConstraintViolationError,
            "NOT NULL constraint of table 's.t' failed",
        ),
    ],
)
def test_texts_decide_where_there_is_no_condition(
    text: str, kind: type[SparkportError], message: str
) -> None:
    """Delta's conflicts and the failures of tasks arrive as text of other errors."""
    ours = translate(UnknownException(text), "s.t")

    assert type(ours) is kind or isinstance(ours, kind)
    assert str(ours) == message


def test_the_causes_are_read_too() -> None:
    """A job's error tells only in its trace what happened to the task."""
    error = SparkException(
        "Job aborted due to stage failure",
        server_stacktrace="Caused by: java.io.IOException: No space left on device",
    )

    assert isinstance(translate(error), LimitExceededError)


def test_data_that_cannot_be_computed_with_is_the_callers() -> None:
    """SQL states of class 22 are about values."""
    error = SparkConnectGrpcException(
        "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", errorClass="DIVIDE_BY_ZERO", sql_state="22012"
    )

    ours = translate(error)
    assert isinstance(ours, InvalidRequestError)
    assert str(ours) == "Division by zero"


def test_a_gateway_that_does_not_answer_is_unavailable() -> None:
    """Py4J's own errors mean that the Java process is gone."""
    error = Py4JNetworkError("Answer from Java side is empty")

    assert isinstance(translate(error), UnavailableError)
    assert is_session_lost(error)


@pytest.mark.parametrize(
    "text",
    [
        "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle 1 is invalid. Session not found. SQLSTATE: HY000",
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
    ],
)
def test_a_session_that_is_over_is_lost(text: str) -> None:
    """A new one is needed, though the connection works."""
    assert is_session_lost(UnknownException(text))


@pytest.mark.parametrize(
    "error",
    [
        AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] no", sql_state="42P01"),
        UnknownException("Job aborted. Caused by: java.net.ConnectException: Connection refused"),
    ],
    ids=["statement", "storage"],
)
def test_a_failed_statement_does_not_lose_the_session(error: Exception) -> None:
    """The next call goes on with the same session."""
    assert not is_session_lost(error)


@pytest.mark.parametrize(
    "error", [KeyError("x"), SparkRuntimeException("[INTERNAL_ERROR] bug"), ValueError("x")]
)
def test_what_is_not_known_stays_as_it_is(error: Exception) -> None:
    """Nobody foresaw it: it ends as an internal error with a trace id."""
    assert translate(error) is None


def test_our_own_errors_pass() -> None:
    """What is ours already is not wrapped again."""
    error = CancelledError()

    assert translate(error) is error


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[A_B.C] Cannot read file:/data/secret/x.parquet. SQLSTATE: KD001", "Cannot read (path)"),
        ("Path does not exist: s3a://bucket/key/part-0.parquet.", "Path does not exist: (path)"),
        ("Cannot write '/srv/data/t' now", "Cannot write '(path)' now"),
        ("Cannot write /srv/data/t, full", "Cannot write (path), full"),
        ("Failed in org.apache.spark.sql.catalyst.Foo$Bar at work", "Failed in (internal) at work"),
        ("org.apache.spark.SparkException: it broke\n\tat org.apache.spark.Foo.bar(Foo.scala:1)", "it broke"),
        (
            "An error occurred while calling o89.sql.\n: a.b.SparkException: No class: a.b.Cat.\n\tat a.b",
            "No class",
        ),
        ("The value 1/2 is no number", "The value 1/2 is no number"),
        ("cannot resolve a.b.c given d.e", "cannot resolve a.b.c given d.e"),
    ],
)
def test_texts_hold_no_paths_classes_or_traces(text: str, shown: str) -> None:
    """Clients learn what happened, not how the server is laid out."""
    assert clean_message(text) == shown


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        *(
            (OSError(code, os.strerror(code), "/data/x"), LimitExceededError, "the server's storage is full")
            for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        ),
        *(
            (OSError(code, os.strerror(code), "/data/x"), PreconditionError, READ_ONLY)
            for code in (errno.EROFS, errno.EACCES, errno.EPERM)
        ),
        (PermissionDeniedError("the server has no access"), PreconditionError, READ_ONLY),
    ],
)
def test_writes_that_the_storage_refuses(error: Exception, kind: type[SparkportError], message: str) -> None:
    """The reason is told without the path; what is not about room or access stays as it is."""
    with pytest.raises(kind) as raised, writing():
        raise error
    with pytest.raises(IsADirectoryError), writing():
        raise IsADirectoryError(errno.EISDIR, "x")

    assert str(raised.value) == message


def test_a_table_named_by_its_folder_gets_its_name() -> None:
    """Where the server keeps its files is no client's business."""
    error = AnalysisException(
        "[DELTA_TABLE_ALREADY_EXISTS] ...",
        errorClass="DELTA_TABLE_ALREADY_EXISTS",
        messageParameters={"tableName": "delta.`/srv/lake/own.db/stock`"},
        sql_state="42P07",
    )

    assert str(translate(error, "own.stock")) == "table 'own.stock' already exists"
