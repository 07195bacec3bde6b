from __future__ import annotations

import inspect

import pytest

from sparkport import errors
from sparkport.errors import (
    AlreadyExistsError,
    CancelledError,
    ConflictError,
    ConstraintViolationError,
    DeadlineExceededError,
    InvalidRequestError,
    LastColumnError,
    NotFoundError,
    RowNotFoundError,
    SchemaMismatchError,
    SchemaNotEmptyError,
    SparkportError,
    TransactionNotActiveError,
    UnsupportedOperationError,
)

CLASSES = {
    name: value
    for name, value in inspect.getmembers(errors, inspect.isclass)
    if value.__module__ == errors.__name__
}


def test_every_error_is_exported() -> None:
    """The list of names is the list of classes, sorted."""
    assert errors.__all__ == sorted(CLASSES)


def test_every_error_is_in_the_tree() -> None:
    """One base for all, and each is drawn in the docstring under its parent."""
    assert errors.__doc__ is not None
    for name, kind in CLASSES.items():
        assert issubclass(kind, SparkportError)
        assert name in errors.__doc__
        assert kind.__doc__


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SchemaMismatchError("details"), "schema mismatch: details"),
        (
            ConstraintViolationError("NOT NULL", "t", column="c"),
            "NOT NULL constraint of table 't' failed in column 'c'",
        ),
        (
            ConstraintViolationError("CHECK (a)", "t", example="a=1"),
            "CHECK (a) constraint of table 't' failed: a=1",
        ),
        (NotFoundError("table", "s.t"), "table 's.t' not found"),
        (NotFoundError("table", "s.ordrs", ["orders"]), "table 's.ordrs' not found. Did you mean 'orders'?"),
        (NotFoundError("table", "s.xyz", ["orders"]), "table 's.xyz' not found"),
        (NotFoundError("table", "ORDRS", ["Orders"]), "table 'ORDRS' not found. Did you mean 'Orders'?"),
        (RowNotFoundError(7), "row_id 7 not found in table"),
        (AlreadyExistsError("schema", "s"), "schema 's' already exists"),
        (
            SchemaNotEmptyError("s", ["t"]),
            "schema 's' contains tables (1 table: 't'); drop them first or use cascade",
        ),
        (
            SchemaNotEmptyError("s", list("gfedcba"), ["x"]),
            (
                "schema 's' contains tables (7 tables: 'a', 'b', 'c', 'd', 'e', ...); drop them first or use"
                " cascade; its folder also holds 'x', which is no table of this server"
            ),
        ),
        (
            SchemaNotEmptyError("s", [], ["y", "x"]),
            (
                "schema 's' is not empty: its folder holds 'x', 'y', which are no tables of this server;"
                " move it away first"
            ),
        ),
        (LastColumnError("t", "c"), "cannot drop column 'c': it is the last column of table 't'"),
        (
            UnsupportedOperationError("table", "t", "INSERT operations"),
            "table 't' does not support INSERT operations",
        ),
        (TransactionNotActiveError("x", "committed"), "transaction x is not active (state: committed)"),
        (ConflictError("t", "it changed"), "conflict on table 't': it changed; run the statement again"),
        (CancelledError(), "the call was cancelled"),
        (DeadlineExceededError(), "the deadline of the call has passed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_class_writes_the_sentence(error: SparkportError, message: str) -> None:
    """The raiser gives data, the class gives the text."""
    assert str(error) == message


def test_errors_keep_their_data() -> None:
    """Who catches an error need not parse its text."""
    missing = NotFoundError("table", "t")
    row = RowNotFoundError(7)
    violation = ConstraintViolationError("CHECK", "t", column="c")

    assert (missing.kind, missing.name) == ("table", "t")
    assert (row.kind, row.name) == ("row", "7")
    assert (violation.constraint, violation.table, violation.column) == ("CHECK", "t", "c")
    assert isinstance(row, NotFoundError)
    assert isinstance(violation, InvalidRequestError)
