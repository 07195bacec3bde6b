"""Find anomalies in a history of transactions that append to lists and read them.

Every value is appended once, so that a read tells who has written what, and in which order. Transactions
depend on each other by what they wrote after (ww), read from (wr) and overwrote after a read (rw). The names
of anomalies are those of Adya.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Transaction:
    """What a transaction has read, and appended, by the names of lists; in the order in which it did so.

    `outcome` is "committed", "aborted", or "unknown" if the answer to its commit was lost.
    """

    number: int
    reads: tuple[tuple[str, tuple[int, ...]], ...] = ()
    appends: tuple[tuple[str, int], ...] = ()
    outcome: str = "committed"


@dataclass
class _Edges:
    """Which transaction depends on which."""

    ww: dict[int, set[int]] = field(default_factory=lambda: collections.defaultdict(set))
    wr: dict[int, set[int]] = field(default_factory=lambda: collections.defaultdict(set))
    rw: dict[int, set[int]] = field(default_factory=lambda: collections.defaultdict(set))


def anomalies(history: Sequence[Transaction], final: dict[str, tuple[int, ...]]) -> list[str]:
    """Return what a history with snapshot isolation must not have; `final` are the lists in the end."""
    writers = {value: one for one in history for _, value in one.appends}
    found = [
        *_dirty_reads(history, writers),
        *_orders(history, final),
        *_lost(history, final),
    ]
    return found or list(_cycles(_edges(history, final, writers)))


def _others(one: Transaction, values: Iterable[int]) -> list[int]:
    """Return the values of a list that are not the reader's own."""
    own = {value for _, value in one.appends}
    return [value for value in values if value not in own]


def _dirty_reads(history: Sequence[Transaction], writers: dict[int, Transaction]) -> Iterator[str]:
    for one in history:
        for name, values in one.reads:
            for value in _others(one, values):
                if writers[value].outcome == "aborted":
                    yield f"G1a: {one.number} has read {value} of {name}, which was never committed"
            last = _others(one, values)[-1:]
            for value in last:
                own = [written for where, written in writers[value].appends if where == name]
                if own[-1] != value:
                    yield f"G1b: {one.number} has read {value} of {name}, which its writer replaced"


def _orders(history: Sequence[Transaction], final: dict[str, tuple[int, ...]]) -> Iterator[str]:
    for one in history:
        for name, values in one.reads:
            seen = tuple(_others(one, values))
            if one.outcome != "aborted" and final.get(name, ())[: len(seen)] != seen:
                yield f"lost update: {one.number} has read {seen} of {name}, which became {final.get(name)}"


def _lost(history: Sequence[Transaction], final: dict[str, tuple[int, ...]]) -> Iterator[str]:
    for one in history:
        for name, value in one.appends:
            if one.outcome == "committed" and value not in final.get(name, ()):
                yield f"lost update: {value} of {name} by {one.number} is gone"
            if one.outcome == "aborted" and value in final.get(name, ()):
                yield f"G1a: {value} of {name} by {one.number} was aborted and is there"
        present = {value in final.get(name, ()) for name, value in one.appends}
        if len(present) > 1:
            yield f"half: of {one.number} only some values are there"


def _edges(
    history: Sequence[Transaction], final: dict[str, tuple[int, ...]], writers: dict[int, Transaction]
) -> _Edges:
    edges = _Edges()
    for values in final.values():
        for before, after in itertools.pairwise(values):
            if writers[before] is not writers[after]:
                edges.ww[writers[before].number].add(writers[after].number)
    for one in history:
        for name, values in one.reads:
            seen = _others(one, values)
            if seen:
                edges.wr[writers[seen[-1]].number].add(one.number)
            rest = final.get(name, ())[len(seen) :]
            if rest and writers[rest[0]] is not one:
                edges.rw[one.number].add(writers[rest[0]].number)
    return edges


def _cycles(edges: _Edges) -> Iterator[str]:
    both = collections.defaultdict(set, {key: set(values) for key, values in edges.ww.items()})
    for key, values in edges.wr.items():
        both[key] |= values
    for name, graph in (("G0", edges.ww), ("G1c", both)):
        for start in list(graph):
            if start in _reachable(graph, graph[start]):
                yield f"{name}: a cycle through {start}"
                return
    for reader, overwriters in edges.rw.items():
        for overwriter in overwriters:
            if reader == overwriter or reader in _reachable(both, {overwriter}):
                yield f"G-single: {reader} has missed {overwriter}, and seen what came after it"


def _reachable(graph: dict[int, set[int]], start: Iterable[int]) -> set[int]:
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found
