"""Errors about types and values that cannot go to storage, or come back from it."""

from __future__ import annotations

from sparkport.errors import PreconditionError


class UnsupportedTypeError(PreconditionError):
    """A column has a type that one of the two sides does not have."""

    def __init__(self, kind: str, *, column: str = "") -> None:
        where = f"column '{column}'" if column else "a column"
        super().__init__(f"{where} has type {kind}, which is not supported; cast it to another type")
        self.kind = kind
        self.column = column


class StoredValueError(PreconditionError):
    """A stored value is none of its column's exact type: somebody else wrote it."""

    def __init__(self, kind: str, detail: str, *, column: str = "") -> None:
        where = f"column '{column}'" if column else "a column"
        super().__init__(f"{where} of type {kind} holds an invalid value: {detail}")
        self.kind = kind
        self.detail = detail
        self.column = column


class BatchTooLargeError(PreconditionError):
    """A type counts with fewer bits than a batch has rows or distinct values: take fewer rows."""

    def __init__(self, kind: str, needed: int) -> None:
        super().__init__(f"type {kind} cannot count to {needed} in one batch; read fewer rows at once")
        self.kind = kind
        self.needed = needed
