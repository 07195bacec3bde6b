"""Tickets that nobody has signed, or not for this caller, open nothing."""

from __future__ import annotations

import random

import pytest

from sparkport.catalog import TablePath
from sparkport.catalog.principal import Principal
from sparkport.errors import InvalidRequestError
from sparkport.protocol.ticket import Ticket, TicketSigner

_ATTEMPTS = 10_000


def test_no_altered_ticket_is_taken() -> None:
    """Bits that are flipped, bytes that are cut, added, exchanged or made up: all of them are refused."""
    chance = random.Random(7)
    signer = TicketSigner(b"k" * 32)
    valid = signer.sign(Ticket(TablePath("db", "s", "t")), "ada")
    other = signer.sign(Ticket(TablePath("db", "s", "hidden")), "bob")
    taken = []
    for _ in range(_ATTEMPTS):
        data = bytearray(valid)
        match chance.randrange(5):
            case 0:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case 1:
                del data[chance.randrange(len(data)) :]
            case 2:
                data += chance.randbytes(chance.randint(1, 8))
            case 3:
                cut = chance.randrange(1, min(len(data), len(other)))
                data = bytearray(valid[:cut] + other[cut:])
            case _:
                data = bytearray(chance.randbytes(chance.randrange(200)))
        if bytes(data) == valid:
            continue
        try:
            taken.append(signer.verify(bytes(data), "ada"))
        except InvalidRequestError:
            continue

    assert taken == []


def test_ticket_belongs_to_its_caller_and_key() -> None:
    """Neither another caller nor another server takes it; roles and the way in make no other caller."""
    signer = TicketSigner(b"k" * 32)
    ticket = signer.sign(Ticket(TablePath("db", "s", "t")), Principal("ada", ["reader"]))
    for principal in ("bob", "ad", "adaa", "", "Ada"):
        with pytest.raises(InvalidRequestError):
            signer.verify(ticket, principal)
    with pytest.raises(InvalidRequestError):
        TicketSigner(b"l" * 32).verify(ticket, "ada")

    assert signer.verify(ticket, Principal("ada")).path == TablePath("db", "s", "t")
