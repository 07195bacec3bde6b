"""The tables of a Spark catalog, listed again every few seconds."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import structlog
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.errors import NotFoundError, PreconditionError, SparkportError
from sparkport.spark.engine import Engine
from sparkport.spark.external.relations import Relation, Unreadable, read_relation
from sparkport.spark.external.show_commands import Namespace, attempt, child_namespaces, read_namespace
from sparkport.spark.storage.filesystem import is_local

_log = structlog.get_logger("sparkport.spark")

_SECONDS = 2.0
_SHARE = 10  # no more than this part of the time goes into looking
_AHEAD = 4
_CHECK_SECONDS = 0.1

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _CachedRelation:
    """The relation at a path, and until when it counts as fresh."""

    relation: Relation | Unreadable
    until: float


class SessionListing:
    """Remembers for a few seconds what a catalog holds; a large one is asked less often.

    A table is described only when somebody asks for it.
    """

    def __init__(self, catalog: str, engine: Engine, *, clock: Callable[[], float] = time.time) -> None:
        self.catalog = catalog
        self._engine = engine
        self._clock = clock
        self._looking = threading.RLock()
        # Later than any version of a server that ran before.
        self._version = int(clock() * 1000)
        self._namespaces: Mapping[str, Namespace] = {}
        self._until = float("-inf")
        self._cached: dict[Path, _CachedRelation] = {}
        self._left_out: dict[Path, str] = {}

    def namespaces(self, call: Call, *, fresh: bool = False) -> Mapping[str, Namespace]:
        """Return all namespaces with the names of their tables; with `fresh`, as they are now."""
        with self._alone(call):
            began = self._clock()
            if fresh or began >= self._until:
                namespaces = self._look(call)
                self._until = self._next_look(began)
                if namespaces != self._namespaces:
                    self._namespaces = namespaces
                    self._raise_version()
            return self._namespaces

    def relations(
        self, call: Call, paths: Iterable[Path], *, fresh: bool = False
    ) -> dict[Path, Relation | Unreadable]:
        """Return the relation at each path; with `fresh`, as it is now."""
        with self._alone(call):
            paths = list(paths)
            self._refresh(call, [path for path in paths if fresh or self._is_stale(path)])
            return {path: self._cached[path].relation for path in paths}

    def version(self, call: Call) -> int:
        """Return a number that rises when anything that clients have seen has changed."""
        with self._alone(call):
            listed = {
                (self.catalog, *namespace.parts, table)
                for namespace in self.namespaces(call).values()
                for table in namespace.tables
            }
            self._cached = {path: cached for path, cached in self._cached.items() if path in listed}
            self._refresh(call, [path for path in self._cached if self._is_stale(path)])
            return self._version

    def _look(self, call: Call) -> dict[str, Namespace]:
        level = self._engine.jobs.run(call, self.catalog, functools.partial(self._children, ()))
        if isinstance(level, SparkportError):
            raise PreconditionError(f"catalog '{self.catalog}' cannot be listed: {level}") from level
        namespaces: dict[str, Namespace] = {}
        while level:
            works = [functools.partial(self._look_into, parts) for parts in level]
            looks = self._engine.jobs.map_ordered(call, self.catalog, works, ahead=_AHEAD)
            deeper: list[Path] = []
            for parts, (namespace, children) in zip(level, looks, strict=True):
                if isinstance(namespace, SparkportError):
                    self._leave_out("schema", (self.catalog, *parts), str(namespace))
                else:
                    namespaces[namespace.name] = namespace
                deeper += children
            level = deeper
        return namespaces

    def _look_into(self, parts: Path, session: SparkSession) -> tuple[Namespace | SparkportError, list[Path]]:
        children = self._children(parts, session)
        namespace = attempt(lambda: read_namespace(session, self.catalog, parts))
        return namespace, [] if isinstance(children, SparkportError) else children

    def _children(self, parts: Path, session: SparkSession) -> list[Path] | SparkportError:
        return attempt(lambda: child_namespaces(session, self.catalog, parts))

    def _is_stale(self, path: Path) -> bool:
        cached = self._cached.get(path)
        return cached is None or self._clock() >= cached.until or self._has_moved(cached.relation)

    def _has_moved(self, relation: Relation | Unreadable) -> bool:
        """Return whether a Delta table on the local disk, which is cheap to check, has another version."""
        if isinstance(relation, Unreadable) or relation.root is None or not is_local(relation.root):
            return False
        try:
            return self._engine.log(relation.root).newest_version() != relation.version
        except NotFoundError:
            return True

    def _refresh(self, call: Call, paths: list[Path]) -> None:
        if not paths:
            return
        began = self._clock()
        works = [functools.partial(read_relation, self._engine, path) for path in paths]
        relations = list(self._engine.jobs.map_ordered(call, self.catalog, works, ahead=_AHEAD))
        until = self._next_look(began)
        for path, relation in zip(paths, relations, strict=True):
            before = self._cached.get(path)
            self._cached[path] = _CachedRelation(relation, until)
            if before is not None and before.relation != relation:
                self._raise_version()
            if isinstance(relation, Unreadable):
                self._leave_out("table", path, relation.reason)

    def _next_look(self, began: float) -> float:
        now = self._clock()
        return now + max(_SECONDS, _SHARE * (now - began))

    def _leave_out(self, kind: str, path: Path, reason: str) -> None:
        """Log, once, why something is not in the listing."""
        if self._left_out.get(path) != reason:
            self._left_out[path] = reason
            _log.warning(f"{kind} left out of the listing", name=".".join(path), reason=reason)

    def _raise_version(self) -> None:
        self._version = max(self._version + 1, int(self._clock() * 1000))

    @contextlib.contextmanager
    def _alone(self, call: Call) -> Iterator[None]:
        """Let one call at a time ask Spark; the others use its answer."""
        call.check()
        while not self._looking.acquire(timeout=_CHECK_SECONDS):
            call.check()
        try:
            yield
        finally:
            self._looking.release()
