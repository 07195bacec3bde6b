"""Errors of Spark, Delta and Py4J in our terms; no other module looks at their classes or texts.

PySpark has a class per kind of failure, Spark a condition (`TABLE_OR_VIEW_NOT_FOUND`) and an
SQL state (`42P01`) inside. Delta's conflicts and the failures of tasks often arrive as text only.
What has no decision here stays as it is and ends as an internal error.

An error that says "this SQL is wrong" blames whoever wrote the SQL. Nearly all of it is the server's own,
so it becomes a RejectedStatementError, which ends as an internal error too; those who run a client's SQL
turn it into an error about the request.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import re
import traceback
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

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
from sparkport.spark.java_causes import java_causes


class VacuumedError(NotFoundError):
    """Data files of an old version are gone, and the log says that later versions do not need them."""

    def __init__(self, table: str) -> None:
        SparkportError.__init__(
            self, f"data files{_of(table)} not found: the version that was asked for was vacuumed"
        )
        self.kind = "data files"
        self.name = table


class MissingDataFileError(PreconditionError):
    """A data file that the log names is not in the storage."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"a data file{_of(table)} was not found: the log names it, but it is missing from the storage"
        )
        self.table = table


class RejectedStatementError(Exception):
    """Spark rejects a statement before it runs. Its text is Spark's sentence, fit for clients.

    Not a SparkportError: unless the statement is a client's, it is a fault of this program.
    """

    def __init__(self, message: str, place: tuple[int, int] | None = None) -> None:
        """`place` is the line and the position in it at which Spark's parser stopped, from 1."""
        super().__init__(_placed(message, place))
        self.message = message
        self.place = place


class StatementSyntaxError(InvalidRequestError):
    """A statement of a client's cannot be parsed."""

    def __init__(self, message: str, place: tuple[int, int]) -> None:
        """`place` is the line and the position in it at which Spark's parser stopped, from 1."""
        super().__init__(_placed(message, place))
        self.message = message
        self.place = place


def _placed(message: str, place: tuple[int, int] | None) -> str:
    return f"{message} (line {place[0]}, position {place[1]})" if place else message


class Decision(enum.Enum):
    """What an exception class alone tells."""

    STATEMENT = "the statement is wrong, whatever the condition"
    CONDITION = "the condition or the text decides"
    FAULT = "a fault of this program, not to be explained to clients"


# By name: the classes of a driver, of Spark Connect and their common bases have the same names.
DECISIONS: Mapping[str, Decision] = {
    "AnalysisException": Decision.STATEMENT,
    "ParseException": Decision.STATEMENT,
    "TempTableAlreadyExistsException": Decision.STATEMENT,
    "ArithmeticException": Decision.CONDITION,
    "ArrayIndexOutOfBoundsException": Decision.CONDITION,
    "CapturedException": Decision.CONDITION,
    "DateTimeException": Decision.CONDITION,
    "IllegalArgumentException": Decision.CONDITION,
    "NumberFormatException": Decision.CONDITION,
    "PySparkException": Decision.CONDITION,
    "PythonException": Decision.CONDITION,
    "QueryExecutionException": Decision.CONDITION,
    "SparkConnectException": Decision.CONDITION,
    "SparkConnectGrpcException": Decision.CONDITION,
    "SparkException": Decision.CONDITION,
    "SparkNoSuchElementException": Decision.CONDITION,
    "SparkRuntimeException": Decision.CONDITION,
    "SparkUpgradeException": Decision.CONDITION,
    "UnknownException": Decision.CONDITION,
    "UnsupportedOperationException": Decision.CONDITION,
    "InvalidPlanInput": Decision.FAULT,
    "PickleException": Decision.FAULT,
    "PySparkAssertionError": Decision.FAULT,
    "PySparkAttributeError": Decision.FAULT,
    "PySparkImportError": Decision.FAULT,
    "PySparkIndexError": Decision.FAULT,
    "PySparkKeyError": Decision.FAULT,
    "PySparkNotImplementedError": Decision.FAULT,
    "PySparkPicklingError": Decision.FAULT,
    "PySparkRuntimeError": Decision.FAULT,
    "PySparkTypeError": Decision.FAULT,
    "PySparkValueError": Decision.FAULT,
    "SessionNotSameException": Decision.FAULT,
    "StreamingPythonRunnerInitializationException": Decision.FAULT,
    "StreamingQueryException": Decision.FAULT,
}

CHANGED = "sparkport: the row was changed meanwhile"
"""What a statement of the server's own fails with when it finds another row than it was planned for."""

_CONFLICT = (
    r"Concurrent(Append|DeleteRead|DeleteDelete|Write|Transaction|Modification)Exception"
    r"|(Metadata|Protocol)ChangedException|DELTA_CONCURRENT_|DELTA_(METADATA|PROTOCOL)_CHANGED"
    r"|DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
)
_CANCELLED = r"SPARK_JOB_CANCELLED|OPERATION_CANCELED|Job \S+ cancelled"
_FULL = r"No space left on device|Disk quota exceeded|File too large"
_READ_ONLY = (
    r"Read-only file system|ReadOnlyFileSystemException|Mkdirs failed to create|DELTA_CANNOT_CREATE_LOG_PATH"
)
_MEMORY = r"OutOfMemoryError|maxResultSize|CANNOT_ALLOCATE_MEMORY"
_NO_MEMORY_TO_READ = r"\b(Arrow)?MemoryError: "
_MISSING_FILE = (
    r"FAILED_READ_FILE\.FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND|DELTA_LOG_FILE_NOT_FOUND"
    r"|FileNotFoundException|FileNotFoundError|AWS Error (NO_SUCH_KEY|RESOURCE_NOT_FOUND)"
)
_FORBIDDEN = r"AccessControlException|AccessDeniedException|Permission denied|AWS Error ACCESS_DENIED"
# Arrow raises OSError for damaged Parquet as well as for a store that fails: only the words differ.
_STORAGE = (
    r"AWS Error \w+|curlCode: |google::cloud::Status\(|\bAzure\w*(Error|Exception)"
    r"|SdkClientException|AWS(Client|Service)\w*Exception"
    r"|java\.net\.(Connect|NoRouteToHost|Socket|SocketTimeout|UnknownHost)Exception"
    r"|\b(Connection\w*|BrokenPipe|Timeout)Error: |\bOSError: \[Errno \d+\]"
)
_DAMAGED = (
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|ParquetDecodingException|ParquetCorruptedException"
    r"|is not a Parquet file|pyarrow\.lib\.Arrow(Invalid|TypeError|NotImplementedError)|\bOSError: "
    r"|DELTA_DELETION_VECTOR|DeletionVector\w*\.scala"
)
_TOO_NEW = r"DELTA_UNSUPPORTED_FEATURES_FOR_READ|DELTA_INVALID_PROTOCOL_VERSION"
_WORKER = r"Python worker (exited unexpectedly|failed to connect back)|a task of this scan failed"
_SILENT = r"Connection refused|failed to connect to all addresses|StatusCode\.UNAVAILABLE"

_CHECK = (
    r"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES|DELTA_NEW_CHECK_CONSTRAINT_VIOLATION|CHECK_CONSTRAINT_VIOLATION"
)
_NOT_NULL = (
    r"DELTA_NOT_NULL_CONSTRAINT_VIOLATED|DELTA_MISSING_NOT_NULL_COLUMN_VALUE|NOT_NULL_ASSERT_VIOLATION"
)


_FULL_CODES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY_CODES = {errno.EROFS, errno.EACCES, errno.EPERM}


def _full() -> SparkportError:
    return LimitExceededError("the server's storage is full")


def _read_only() -> SparkportError:
    return PreconditionError("the server cannot write to its storage: it is read-only, or access is denied")


def _of(table: str) -> str:
    return f" of table '{table}'" if table else ""


def _damaged_file(table: str) -> PreconditionError:
    return PreconditionError(
        f"a data file{_of(table)} cannot be read: it is damaged, or not what the log says"
    )


def _no_memory_to_read(table: str) -> LimitExceededError:
    return LimitExceededError(f"there is not enough memory to read a data file{_of(table)}")


def _storage_down(table: str) -> UnavailableError:
    return UnavailableError(f"the storage{_of(table)} does not answer; try again")


def too_new(table: str) -> PreconditionError:
    """Return the error for a table that neither the server nor its Spark can read."""
    named = f"table '{table}'" if table else "a table"
    return PreconditionError(f"{named} needs a newer version of Delta than this Spark has")


def _no_change_data(table: str) -> PreconditionError:
    return PreconditionError(
        f"table '{table}' has no change data for all of this range; to record changes from now on, run"
        " ALTER TABLE ... SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') in Spark"
    )


def _retention_too_short(table: str) -> PreconditionError:
    return PreconditionError(
        f"vacuum must keep the files of table '{table}' for at least a week, for readers of older versions;"
        " set the table property delta.deletedFileRetentionDuration to allow less"
    )


_BY_CONDITION: Mapping[str, Callable[[str], SparkportError]] = {
    "DELTA_MISSING_CHANGE_DATA": _no_change_data,
    "DELTA_CHANGE_TABLE_FEED_DISABLED": _no_change_data,
    "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT": _retention_too_short,
}

# Words in the text of an error or of its causes: the first that matches decides.
_TEXTS: tuple[tuple[str, Callable[[str], SparkportError]], ...] = (
    (_CONFLICT, lambda table: ConflictError(table, "another writer changed it at the same time")),
    (_CHECK, lambda table: ConstraintViolationError("CHECK", table)),
    (_NOT_NULL, lambda table: ConstraintViolationError("NOT NULL", table)),
    (_CANCELLED, lambda _: CancelledError()),
    (_FULL, lambda _: _full()),
    (_READ_ONLY, lambda _: _read_only()),
    (_MEMORY, lambda _: LimitExceededError("Spark does not have enough memory for this statement")),
    (_NO_MEMORY_TO_READ, _no_memory_to_read),
    (_TOO_NEW, too_new),
    (_WORKER, lambda _: UnavailableError("a Spark worker process died; try again")),
    # Before the next: Java calls a file that it may not open not found.
    (_FORBIDDEN, lambda _: PermissionDeniedError("the server has no access to the files of the table")),
    (_MISSING_FILE, MissingDataFileError),
    (_STORAGE, _storage_down),
    (_DAMAGED, _damaged_file),
    (_SILENT, lambda _: UnavailableError("Spark does not answer; try again")),
)

# SQL states of values and limits: whatever words such an error has, they are about the request.
_VALUE_STATES = ("21", "22", "23505", "54", "P0")
_STATEMENT_STATE = "42"
_UNSUPPORTED_STATE = "0A"
# Delta's conditions judge what is asked of a table (a time, a column); those of Spark judge the SQL.
_DELTA = "DELTA_"

# What Java raises for values of a statement where Spark has no condition of its own.
_VALUE_CLASSES = re.compile(
    r"java\.lang\.(Arithmetic|NumberFormat|IllegalArgument|NegativeArraySize|\w*IndexOutOfBounds)Exception"
    r"|java\.(util\.regex|util\.\w*Format\w*|time|text|net|nio\.charset|security)\b.*"
    r"|javax\.(xml|crypto)\..*|org\.xml\.sax\..*|com\.fasterxml\.jackson\..*"
    r"|org\.apache\.spark\.SparkIllegalArgumentException"
)
_UNSORTED = "_LEGACY_ERROR_TEMP_"  # conditions that Spark has given no SQL state yet
_STACK_OVERFLOW = "java.lang.StackOverflowError"

# After these a session is of no more use.
_LOST = r"stopped SparkContext|SparkContext (was|has been) (shut ?down|stopped)|INVALID_HANDLE\.SESSION_"

# A table that was named by its folder.
_PATH_TABLE = re.compile(r"\b(delta|parquet)`?\.`?/|://")
# What `sparkport.spark.worker.scalars` raises in workers.
_USER = re.compile(r"UserFunctionError: (\w+): (.*)")

# How Spark's parser ends its sentence; it counts characters from 0.
_PLACE = re.compile(r"SQLSTATE: \w+ \(line (\d+), pos (\d+)\)")

_MISSING = {
    "42P01": ("table", ("relationName", "tableName")),
    "42703": ("column", ("objectName", "columnName", "colName", "targetCol")),
    "SCHEMA_NOT_FOUND": ("schema", ("schemaName",)),
    "PATH_NOT_FOUND": ("table", ()),
    "DELTA_PATH_DOES_NOT_EXIST": ("table", ()),
    "DELTA_VERSION_NOT_FOUND": ("version", ("userVersion",)),
}
_PRESENT = {
    "42P07": ("table", ("relationName", "tableName")),
    "42P06": ("schema", ("schemaName",)),
    "42711": ("column", ("columnName",)),
}


def translate(error: BaseException, table: str = "") -> SparkportError | RejectedStatementError | None:
    """Return the error in our terms, or None when nothing is known about it.

    `table` is the table the work was about, for the message. Texts hold no
    paths, no stack traces and no names of Java classes.
    """
    if isinstance(error, SparkportError | RejectedStatementError):
        return error
    if not isinstance(error, PySparkException | Py4JError | OSError):
        return None
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return UnavailableError("Spark does not answer; try again")
    decision = _decision(error)
    if decision is Decision.FAULT or user_failure(error) is not None:
        return None
    text = _text(error)
    if CHANGED in text:
        return ConflictError(table, "another writer changed the same rows")
    ours = (
        _by_condition(error, table)
        or _by_value_cause(error)
        or next((maker(table) for pattern, maker in _TEXTS if re.search(pattern, text)), None)
        or _by_statement_cause(error)
    )
    if ours is None and decision is Decision.STATEMENT:
        text = next(_texts(error))
        return RejectedStatementError(clean_message(text), _place(text))
    return ours


def file_error(error: Exception, table: str) -> SparkportError | None:
    """Return what is wrong with a data file that could not be decoded in this process, or None.

    The same as if it had been decoded in a task of Spark's, whose error ends with the same line.
    """
    if not isinstance(error, OSError | MemoryError | pa.ArrowException):
        return None
    text = "".join(traceback.format_exception_only(error))
    return next((maker(table) for pattern, maker in _TEXTS if re.search(pattern, text)), None)


def client_statement_error(error: BaseException) -> SparkportError | None:
    """Return what is wrong with a statement that a client wrote, or None when that is not the reason.

    Only where all of the statement is the client's: of the server's own it would blame the wrong side.
    """
    if isinstance(error, RejectedStatementError):
        if error.place:
            return StatementSyntaxError(error.message, error.place)
        return InvalidRequestError(error.message)
    causes = java_causes(error)
    if any(cause.kind == _STACK_OVERFLOW for cause in causes):
        return InvalidRequestError("the statement is nested too deeply")
    for cause in reversed(causes):
        if _VALUE_CLASSES.fullmatch(cause.kind) or cause.condition.startswith(_UNSORTED):
            message = clean_message(cause.message.removeprefix("requirement failed: "))
            return InvalidRequestError(
                message or f"Spark cannot compute this ({cause.kind.rpartition('.')[2]})"
            )
    return None


def is_refusal(error: BaseException) -> bool:
    """Return whether an error of a commit says that nothing was committed; after others nobody knows."""
    if isinstance(error, SparkportError | RejectedStatementError):
        refusals = ConflictError | InvalidRequestError | PreconditionError | RejectedStatementError
        return isinstance(error, refusals)
    return isinstance(translate(error), ConflictError)


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Run a block that writes files, by itself or through Spark.

    Raises LimitExceededError when the storage is full, and PreconditionError when it is read-only.
    """
    try:
        yield
    except PermissionDeniedError as error:
        raise _read_only() from error
    except OSError as error:
        if error.errno in _FULL_CODES:
            raise _full() from error
        if error.errno in _READ_ONLY_CODES:
            raise _read_only() from error
        raise


def user_failure(error: BaseException) -> Exception | None:
    """Return what a user's function raised in a task of Spark's, by the name of its class, or None."""
    match = _USER.search(_text(error)) if isinstance(error, PySparkException) else None
    return None if match is None else type(match[1], (Exception,), {})(match[2])


def is_session_lost(error: BaseException) -> bool:
    """Return whether the session behind the error cannot serve another call."""
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return True
    if not isinstance(error, PySparkException | Py4JError):
        return False
    text = _text(error)
    if re.search(_LOST, text):
        return True
    # A Spark that says that its storage refuses connections is alive itself.
    return re.search(_SILENT, text) is not None and re.search(_STORAGE, text) is None


def clean_message(text: str) -> str:
    """Return the first sentences of Spark's text without condition, SQL state, paths, classes and traces."""
    text = re.split(r"\n\s*(?:==|at |JVM stacktrace|Caused by)|;\n|SQLSTATE:", text, maxsplit=1)[0]
    text = re.sub(r"^An error occurred while calling \S+\s*:\s*", "", text.strip())
    text = re.sub(r"^(?:\([\w.$]+\)\s*)?(?:[\w.$]+(?:Exception|Error):\s*)?(?:\[[A-Z0-9_.]+\]\s*)?", "", text)
    text = re.sub(r"\b[a-z][a-z0-9+.-]*:/+[^\s'\"`,;)\]]+", "(path)", text)
    text = re.sub(r"(?<![\w.`'\"])/[^\s'\"`,;)\]]*/[^\s'\"`,;)\]]+", "(path)", text)
    text = re.sub(r"(?<=['\"`])/[^'\"`]*/[^'\"`]*(?=['\"`])", "(path)", text)
    text = re.sub(r"\b(?:[a-z_]\w*\.){2,}[A-Z][\w$]*", "(internal)", text)
    text = " ".join(text.split()).rstrip(" .,;:")
    return text.removesuffix(": (internal)")


def _place(text: str) -> tuple[int, int] | None:
    """Return the line and the position in it at which Spark's parser stopped, if the text tells."""
    place = _PLACE.search(text)
    return (int(place[1]), int(place[2]) + 1) if place else None


def _proposals(parameters: Mapping[str, str]) -> list[str]:
    """Return the names that Spark proposes for an unknown one, without their qualifiers."""
    paths = re.findall(r"(?:`(?:[^`]|``)+`\.?)+", parameters.get("proposal", ""))
    return [re.findall(r"`((?:[^`]|``)+)`", path)[-1] for path in paths]


def _decision(error: BaseException) -> Decision:
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((DECISIONS[name] for name in names if name in DECISIONS), Decision.CONDITION)


def _by_condition(error: BaseException, table: str) -> SparkportError | RejectedStatementError | None:
    if not isinstance(error, PySparkException):
        return None
    condition, state = error.getCondition() or "", error.getSqlState() or ""
    parameters = error.getMessageParameters() or {}
    if condition in _BY_CONDITION:
        return _BY_CONDITION[condition](table)
    kind, names = _MISSING.get(condition) or _MISSING.get(state) or ("", ())
    if kind:
        return NotFoundError(kind, _name_in(parameters, names, table), _proposals(parameters))
    kind, names = _PRESENT.get(condition) or _PRESENT.get(state) or ("", ())
    if kind:
        return AlreadyExistsError(kind, _name_in(parameters, names, table))
    text = next(_texts(error))
    message = clean_message(text)
    match state[:2]:
        case "21" | "22" | "54" | "P0":
            return InvalidRequestError(message)
        case "42":
            return _rejection(condition, message, _place(text))
        case "0A":
            return PreconditionError(message)
        case _:
            return None


def _by_value_cause(error: BaseException) -> SparkportError | None:
    """Return what a cause of an error says about values."""
    for cause in java_causes(error):
        if cause.state.startswith(_VALUE_STATES):
            return InvalidRequestError(clean_message(cause.message))
    return None


def _by_statement_cause(error: BaseException) -> SparkportError | RejectedStatementError | None:
    """Return what a cause of an error says about the statement, else about what Spark cannot do."""
    causes = java_causes(error)
    for cause in causes:
        if cause.state.startswith(_STATEMENT_STATE):
            return _rejection(cause.condition, clean_message(cause.message))
    for cause in causes:
        if cause.state.startswith(_UNSUPPORTED_STATE):
            return PreconditionError(clean_message(cause.message))
    return None


def _rejection(
    condition: str, message: str, place: tuple[int, int] | None = None
) -> SparkportError | RejectedStatementError:
    if condition.startswith(_DELTA):
        return InvalidRequestError(message)
    return RejectedStatementError(message, place)


def _name_in(parameters: Mapping[str, str], names: tuple[str, ...], table: str) -> str:
    name = next((parameters[name] for name in names if parameters.get(name)), table)
    if _PATH_TABLE.search(name):
        name = table
    return clean_message(name.replace("`", "")).removeprefix("spark_catalog.")


def _text(error: BaseException) -> str:
    return "\n".join(_texts(error))


def _texts(error: BaseException) -> Iterator[str]:
    """Yield what the error and its causes say; Java's causes are part of its stack trace."""
    if isinstance(error, PySparkException):
        condition = error.getCondition()
        yield str(getattr(error, "_desc", None) or error.getMessage() or error)
        yield condition or ""
        yield str(getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None) or "")
    else:
        yield str(error)
