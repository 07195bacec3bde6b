"""Handles, transaction ids and tickets of others, made up, altered or too old are of no use."""

from __future__ import annotations

import random
import string

import pyarrow as pa
import pytest

from sparkport.catalog import Call, SqlDescription, SqlStatement, TablePath
from sparkport.catalog.transactions import TransactionMode
from sparkport.errors import InvalidRequestError, NotFoundError
from sparkport.flight.prepared_statements import PreparedStatement, PreparedStatements
from sparkport.protocol.ticket import Ticket, TicketSigner
from sparkport.toolkit.transaction_registry import TransactionRegistry

_ATTEMPTS = 10_000
_LETTERS = string.ascii_letters + string.digits + "-_"
PREPARED = PreparedStatement(SqlStatement("SELECT 1", "db1"), None, SqlDescription(None, pa.schema([])))


def _altered(chance: random.Random, text: str) -> str:
    """Return a text of about that length that is another one."""
    letters = list(text)
    match chance.randrange(3):
        case 0:
            at = chance.randrange(len(letters))
            letters[at] = chance.choice(_LETTERS.replace(letters[at], ""))
        case 1:
            letters = letters[: chance.randrange(len(letters))]
        case _:
            letters = chance.choices(_LETTERS, k=len(letters))
    return "".join(letters)


def test_no_altered_handle_of_a_statement_is_taken() -> None:
    """Neither a guess nor a change of a letter finds a statement, nor the right handle another's."""
    chance = random.Random(1)
    statements = PreparedStatements()
    handles = [statements.add("ada", PREPARED).decode() for _ in range(50)]
    tried = [("ada", _altered(chance, chance.choice(handles))) for _ in range(_ATTEMPTS)]
    for principal, handle in [*tried, *(("eve", handle) for handle in handles)]:
        with pytest.raises(NotFoundError):
            statements.get(principal, handle.encode())

    assert all(statements.get("ada", handle.encode()) == PREPARED for handle in handles)


def test_no_altered_id_of_a_transaction_is_taken() -> None:
    """Whoever did not begin a transaction finds none, whatever ids are tried; nor does who guesses."""
    chance = random.Random(2)
    registry: TransactionRegistry[list[int]] = TransactionRegistry(list)
    ids = [registry.begin(Call("ada"), TransactionMode.STAGED, []) for _ in range(50)]
    tried = [("ada", _altered(chance, chance.choice(ids))) for _ in range(_ATTEMPTS)]
    for principal, transaction_id in [*tried, *(("eve", transaction_id) for transaction_id in ids)]:
        with pytest.raises(NotFoundError):
            registry.find(Call(principal), transaction_id)

    assert all(registry.find(Call("ada"), transaction_id).principal == "ada" for transaction_id in ids)


def test_tickets_end_and_cannot_be_given_away() -> None:
    """A ticket is good for its caller until it expires, and for nobody else at any time."""
    chance = random.Random(3)
    now = [0.0]
    signer = TicketSigner(b"k" * 32, lifetime_seconds=60, clock=lambda: now[0])
    callers = ["ada", "adaa", "eve", "Ada", "", "a"]
    wrong = []
    for _ in range(_ATTEMPTS):
        now[0] = chance.randrange(1000)
        owner, caller, age = chance.choice(callers), chance.choice(callers), chance.choice([0, 60, 61, 3600])
        ticket = signer.sign(Ticket(TablePath("db", "s", owner)), owner)
        now[0] += age
        try:
            is_taken = signer.verify(ticket, caller).path == TablePath("db", "s", owner)
        except InvalidRequestError:
            is_taken = False
        if is_taken != (owner == caller and age <= 60):
            wrong.append((owner, caller, age))

    assert wrong == []
