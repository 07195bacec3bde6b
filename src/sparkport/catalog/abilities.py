"""Fast `isinstance` for the protocols: what a backend can do is tested at run time, for every table and call.

`isinstance` of a runtime-checkable protocol looks at the members of the instance itself. Python 3.11
evaluates each property for that, and here a property may read the log of a table.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol


class Ability(type(Protocol)):  # type: ignore[misc]  # the metaclass of protocols has no public name
    """The metaclass of protocols that are asked for with `isinstance`.

    Members are looked for on the class, once; only those that it lacks on the instance.
    """

    def __instancecheck__(cls, instance: Any) -> bool:  # noqa: ANN401  (anything may be asked)
        """Return whether an object has all members of a protocol, or is of a class."""
        if not cls.__dict__.get("_is_protocol", False):
            return bool(super().__instancecheck__(instance))
        return all(
            hasattr(instance, name) and not (is_method and getattr(instance, name) is None)
            for name, is_method in _lacking(cls, type(instance))  # type: ignore[arg-type]  # types hash
        )


def abilities_of(thing: object, protocols: tuple[type, ...]) -> tuple[type, ...]:
    """Return which of the protocols an object follows; objects of most classes are judged by their class."""
    known = _by_class(type(thing), protocols)  # type: ignore[arg-type]  # types hash
    if known is not None and known[1].isdisjoint(getattr(thing, "__dict__", ())):
        return known[0]
    return tuple(protocol for protocol in protocols if isinstance(thing, protocol))


@functools.lru_cache(maxsize=4096)
def _by_class(kind: type, protocols: tuple[type, ...]) -> tuple[tuple[type, ...], frozenset[str]] | None:
    """Return the protocols that a class follows, and the members that it lacks of the others.

    None if a member that it lacks may yet be found on its instances, whatever attributes they have.
    """
    lacking = {protocol: _lacking(protocol, kind) for protocol in protocols}
    names = frozenset(name for members in lacking.values() for name, _ in members)
    if hasattr(kind, "__getattr__") or any(hasattr(kind, name) for name in names):
        return None
    return tuple(protocol for protocol, members in lacking.items() if not members), names


@functools.lru_cache(maxsize=4096)
def _lacking(protocol: Ability, kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the members of a protocol that a class does not have, and whether they are methods."""
    return tuple(
        (name, callable(getattr(protocol, name, None)))
        for name in sorted(_members(protocol))
        if getattr(kind, name, None) is None
    )


def _members(protocol: Ability) -> set[str]:
    declared = [
        vars(base).keys() | base.__annotations__.keys()
        for base in protocol.__mro__
        if vars(base).get("_is_protocol", False) and base is not Protocol
    ]
    return {name for names in declared for name in names if not name.startswith("_")}
