"""Names of tables in queries that are analysed at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkport.catalog import Call
from sparkport.errors import CancelledError, InvalidRequestError
from sparkport.spark.query.tables import QueryTable, TableBindings

OLD, NEW = QueryTable("s", "t", "/a", "1"), QueryTable("S", "T", "/b", "2")
OTHER = QueryTable("s", "u", "/c", "3")


def test_a_name_is_bound_once_for_those_who_agree() -> None:
    """Analyses of the same tables run side by side."""
    bound: list[QueryTable] = []
    bindings = TableBindings(bound.append)
    with bindings.bind(Call(), [OLD, OTHER]), bindings.bind(Call(), [OTHER, OLD, OLD]):
        pass
    with bindings.bind(Call(), [OLD]):
        pass

    assert bound == [OLD, OTHER]


def test_another_table_waits_for_the_name() -> None:
    """A query never reads the table that another one means; who does not use the name does not wait."""
    bound: list[QueryTable] = []
    bindings = TableBindings(bound.append)
    meant: list[QueryTable] = []

    def replace() -> None:
        with bindings.bind(Call(), [NEW]):
            meant.extend(bound)

    with ThreadPoolExecutor(1) as threads:
        with bindings.bind(Call(), [OLD]):
            waiting = threads.submit(replace)
            with bindings.bind(Call(), [OTHER]):
                pass
            assert not waiting.done()
        waiting.result(10)

    assert meant == [OLD, OTHER, NEW]


def test_who_waits_for_a_name_ends_with_the_call() -> None:
    """A cancelled query that waits is not one that hangs."""
    bindings = TableBindings(lambda _: None)
    call = Call()
    with bindings.bind(Call(), [OLD]), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(bindings.bind(call, [OTHER, NEW]).__enter__)
        call.cancel()

        assert isinstance(waiting.exception(10), CancelledError)
        with bindings.bind(Call(), [OTHER]):
            pass


def test_who_waits_for_a_table_to_be_bound_ends_with_the_call() -> None:
    """Also where Spark takes its time."""
    begun, going_on = threading.Event(), threading.Event()

    def bind(_: QueryTable) -> None:
        begun.set()
        going_on.wait(10)

    bindings = TableBindings(bind)
    call = Call()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(bindings.bind(Call(), [OLD]).__enter__)
        begun.wait(10)
        second = threads.submit(bindings.bind(call, [OLD]).__enter__)
        call.cancel()

        assert isinstance(second.exception(5), CancelledError)
        going_on.set()
        first.result(10)


def test_a_table_that_could_not_be_bound_is_bound_again() -> None:
    """An error leaves nothing behind that looks bound."""
    bound: list[QueryTable] = []

    def bind(table: QueryTable) -> None:
        bound.append(table)
        if len(bound) == 2:
            raise OSError

    bindings = TableBindings(bind)
    with bindings.bind(Call(), [OLD]):
        pass
    with pytest.raises(OSError):  # noqa: PT011
        bindings.bind(Call(), [NEW]).__enter__()
    with bindings.bind(Call(), [OLD]):
        pass

    assert bound == [OLD, NEW, OLD]


def test_tables_that_differ_in_letter_case_alone_are_refused() -> None:
    """Spark would read one of them twice."""
    with pytest.raises(InvalidRequestError, match=r"'s\.t' and 'S\.T'"):
        TableBindings(lambda _: None).bind(Call(), [OLD, NEW]).__enter__()
