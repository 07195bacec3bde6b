"""A statement with a key is done once, however often it is sent."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, DynamicSchema
from sparkport.errors import InvalidRequestError, PreconditionError
from tests.behaviour.engine import delete, ids, insert, numbers, update, values, version


def keyed(key: str) -> Call:
    """Return a call with a key."""
    return Call(idempotency_key=key)


def test_repeated_statement_returns_the_first_outcome(schema: DynamicSchema) -> None:
    """Neither more rows nor what has happened since change what a key has come to."""
    table = numbers(schema, 1, 2)
    first, second = ids(table)
    done = [
        insert(table, [{"n": 3}, {"n": 4}], keyed("insert")),
        update(table, [first], {"n": [10]}, keyed("update")),
        delete(table, [second], keyed("delete")),
    ]
    update(table, [first], {"n": [11]})
    newest = version(table)
    again = [
        insert(table, [{"n": 3}, {"n": 4}], keyed("insert")),
        update(table, [first], {"n": [10]}, keyed("update")),
        delete(table, [second], keyed("delete")),
    ]

    assert done == again == [2, 1, 1]
    assert version(table) == newest
    assert values(table) == [11, 3, 4]


def test_key_is_that_of_one_table(schema: DynamicSchema) -> None:
    """The same key on another table is another statement; on the same one it is refused for other rows."""
    one, other = numbers(schema, 1, name="one"), numbers(schema, 1, name="other")

    assert insert(one, [{"n": 2}], keyed("k")) == 1
    assert insert(other, [{"n": 2}], keyed("k")) == 1
    with pytest.raises(InvalidRequestError, match="was used for another statement"):
        insert(other, [{"n": 5}, {"n": 6}], keyed("k"))
    with pytest.raises(InvalidRequestError, match="was used for another statement"):
        delete(other, ids(other)[:1], keyed("k"))
    with pytest.raises(InvalidRequestError, match="was used for another statement"):
        insert(other, [{"n": 2}], Call("somebody else", idempotency_key="k"))
    assert values(one) == values(other) == [1, 2]


def test_key_that_is_used_meanwhile_is_compared_too(schema: DynamicSchema) -> None:
    """A statement that began before another with the same key was done is refused at its end."""
    table = numbers(schema, 1)
    late = table.begin_insert(keyed("k"), returning=False)
    late.write(pa.record_batch({"n": [5]}))
    insert(table, [{"n": 2}], keyed("k"))

    with pytest.raises(InvalidRequestError, match="was used for another statement"):
        late.commit()
    assert values(table) == [1, 2]


def test_failed_statement_leaves_no_key(schema: DynamicSchema) -> None:
    """What was not done can be sent again under its key."""
    table = numbers(schema, 1)
    statement = table.begin_insert(keyed("k"), returning=False)
    statement.write(pa.record_batch({"n": [2]}))
    statement.abort()

    assert insert(table, [{"n": 2}], keyed("k")) == 1
    assert values(table) == [1, 2]


def test_rows_of_a_repeated_statement_are_not_returned(schema: DynamicSchema) -> None:
    """RETURNING of what is done already is refused, whether that shows at the beginning or at the end."""
    table = numbers(schema, 1)
    late = table.begin_insert(keyed("k"), returning=True)
    late.write(pa.record_batch({"n": [2]}))
    insert(table, [{"n": 2}], keyed("k"))
    reason = "was already executed, with 1 rows; they cannot be returned again"

    with pytest.raises(PreconditionError, match=reason):
        late.commit()
    with pytest.raises(PreconditionError, match=reason):
        table.begin_insert(keyed("k"), returning=True)
    assert values(table) == [1, 2]
