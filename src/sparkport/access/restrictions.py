"""Row filters and column masks of one table for one caller, applied to rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from sparkport.access.conditions import evaluate_condition, parse_condition
from sparkport.access.scope import Scope
from sparkport.arrow.conform import batch_of, conform_column
from sparkport.catalog.call import Call
from sparkport.catalog.predicates import Expression
from sparkport.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidRequestError,
    LimitExceededError,
    PermissionDeniedError,
)
from sparkport.expressions.evaluation import evaluate_as, referenced_columns
from sparkport.expressions.personal import personalized

_BOOLEAN = pa.field("condition", pa.bool_())

_log = structlog.get_logger("sparkport")


@dataclass(frozen=True, slots=True)
class Restriction:
    """What is kept from a caller of the rows of a table.

    `condition` is the row filter, None if there is none; `masks` has an expression for each masked column,
    by its lower-case name. `predicate` is the row filter once more, if it is of the simple kind.
    """

    table: str
    condition: str | None = None
    masks: dict[str, str] = field(default_factory=dict)
    predicate: Expression | None = None

    def columns(self, names: list[str]) -> set[str]:
        """Return the columns, in lower case, that are needed to show these columns of the rows."""
        needed = set() if self.condition is None else set(self._reads(self.condition))
        for name in names:
            mask = self.masks.get(name.lower())
            needed |= {name.lower()} if mask is None else self._reads(mask)
        return needed

    def keep(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the caller may see."""
        if self.condition is None or not batch.num_rows:
            return batch
        seen = self.seen(call, batch)
        if seen.true_count == batch.num_rows:
            return batch
        try:
            return batch.filter(seen)
        except pa.ArrowNotImplementedError as error:
            raise self._failed(f"Arrow cannot filter these columns: {error}") from None

    def seen(self, call: Call, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether the caller may see it."""
        if self.condition is None:
            return pa.array([True] * batch.num_rows)
        verdicts = None if self.predicate is None else evaluate_condition(self.predicate, batch)
        if verdicts is not None:
            return pc.fill_null(verdicts, fill_value=False)
        return pc.fill_null(self._evaluated(call, self.condition, batch, _BOOLEAN), fill_value=False)

    def masked(self, call: Call, batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
        """Return these columns of the rows as the caller may see them."""
        arrays = []
        for column in columns:
            mask = self.masks.get(column.name.lower())
            if mask is None:
                index = batch.schema.get_field_index(column.name)
                arrays.append(conform_column(batch.column(index), column))
            else:
                arrays.append(self._mask(call, mask, batch, column))
        return batch_of(arrays, columns, batch.num_rows)

    def _mask(self, call: Call, mask: str, batch: pa.RecordBatch, column: pa.Field) -> pa.Array:
        if not batch.num_rows:
            return pa.nulls(0, column.type)
        return self._evaluated(call, mask, batch, column)

    def _evaluated(self, call: Call, expression: str, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        """Return the value of an expression for each row, with the type of a field."""
        try:
            value = evaluate_as(call, expression, pa.Table.from_batches([batch]), field)
            whole = value.combine_chunks() if value.num_chunks != 1 else value.chunk(0)
            if pa.types.is_boolean(field.type) and isinstance(whole, pa.ExtensionArray):
                whole = whole.storage.cast(pa.bool_())  # DuckDB's booleans have eight bits
            return conform_column(whole, field)
        except (CancelledError, DeadlineExceededError, LimitExceededError):
            raise
        except InvalidRequestError as error:
            # The text of the expression is not for the caller.
            raise self._failed(str(error)) from None

    def _reads(self, expression: str) -> frozenset[str]:
        try:
            return referenced_columns(expression)
        except InvalidRequestError as error:
            raise self._failed(str(error)) from None

    def _failed(self, reason: str) -> PermissionDeniedError:
        _log.error("row filter or mask cannot be applied", table=self.table, reason=reason)
        return PermissionDeniedError(
            f"a row filter or mask of table '{self.table}' cannot be applied; the server's log says why"
        )


def restriction_of(scope: Scope, schema: str, table: str, arrow_schema: pa.Schema) -> Restriction | None:
    """Return what is kept from a caller of the rows of a table, None if nothing is."""
    rights, path = scope.rights, (scope.catalog, schema, table)
    filters, masks = rights.filters(path), rights.masks_in(path)
    if not filters and not masks:
        return None
    name = f"{schema}.{table}"

    def personal(expression: str) -> str:
        try:
            return personalized(expression, rights.principal, rights.roles)
        except InvalidRequestError as error:
            raise Restriction(name)._failed(str(error)) from None  # noqa: SLF001  (of this module)

    condition = " AND ".join(f"({personal(one.condition)})" for one in filters) or None
    expressions: dict[str, str] = {}
    for column in arrow_schema.names:
        mask = next((one for one in masks if one.pattern.matches((*path, column))), None)
        if mask is not None:
            expressions[column.lower()] = personal(mask.expression)
    if not condition and not expressions:
        return None
    return Restriction(name, condition, expressions, parse_condition(condition) if condition else None)
