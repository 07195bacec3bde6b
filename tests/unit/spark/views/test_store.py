"""The files of views."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from sparkport.errors import AlreadyExistsError, NotFoundError
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.storage.filesystem import ArrowStorage
from sparkport.spark.views import store
from sparkport.spark.views.definition import ViewDefinition, decode, encode
from sparkport.spark.views.store import ViewStore


def _view(name: str = "V", sql: str = "SELECT 1 AS a") -> ViewDefinition:
    fields = (SparkField("a b", "integer", metadata={"comment": "c"}),)
    return ViewDefinition("s", name, sql, ("a",), fields, "all")


def test_views_are_seen_by_other_servers(tmp_path: Path) -> None:
    """What one server makes, changes and drops is what another one sees, with a higher version."""
    one, other = ViewStore(str(tmp_path)), ViewStore(str(tmp_path))
    assert not other.views()
    versions = [other.version()]
    steps: list[dict[tuple[str, str], str]] = []
    for step in (one.create, one.replace, one.remove):
        step(_view(sql=f"SELECT {len(steps)} AS a"))
        steps.append({key: view.sql for key, view in other.views().items()})
        versions.append(other.version())

    assert steps == [{("s", "v"): "SELECT 0 AS a"}, {("s", "v"): "SELECT 1 AS a"}, {}]
    assert versions == sorted(set(versions))


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    """Whatever its letter case, and whoever made the view."""
    one, other = ViewStore(str(tmp_path)), ViewStore(str(tmp_path))
    one.create(_view("View"))
    with pytest.raises(AlreadyExistsError):
        other.create(_view("vIEW"))
    one.remove(_view("VIEW"))
    with pytest.raises(NotFoundError):
        other.remove(_view("View"))
    names = ["", "a/b\\c", "..", "\u00e4" * 500, "x\udc00"]
    for name in names:
        other.create(_view(name))

    assert {view.name for view in one.views().values()} == set(names)


def test_a_damaged_file_hides_no_other_view(tmp_path: Path) -> None:
    """It is left out until the view is made again."""
    store = ViewStore(str(tmp_path))
    store.create(_view("good"))
    store.create(_view("bad"))
    folder = tmp_path / "_sparkport" / "views"
    (damaged,) = (file for file in folder.iterdir() if b'"bad"' in file.read_bytes())
    for data in (b"", b"{}", b"\xff", encode(_view("bad")).replace(b'"integer"', b"7")):
        damaged.write_bytes(data)
        assert [view.name for view in store.views().values()] == ["good"]
    store.replace(_view("bad"))

    assert len(store.views()) == 2


def test_a_view_is_read_as_it_was_written() -> None:
    """With its columns, their comments and its query."""
    view = _view()

    assert decode(encode(view)) == view
    assert view.arrow_schema.field("a b").metadata == {b"comment": b"c"}
    assert view.subquery == "(SELECT `a` AS `a b` FROM (\nSELECT 1 AS a\n))"


def test_views_are_kept_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in one that never had a view; what other servers have done is seen some moments later."""
    objects = fs._MockFileSystem()
    storage = ArrowStorage(objects, "")
    monkeypatch.setattr(store, "storage_of", lambda _: storage)
    now = 0.0
    one, other = (ViewStore("s3://lake/warehouse", clock=lambda: now) for _ in range(2))
    assert (dict(one.views()), dict(other.views())) == ({}, {})
    objects.create_dir("/warehouse/_sparkport/views")  # which real stores do not need
    one.create(_view())
    with pytest.raises(AlreadyExistsError):
        other.create(_view())
    at_once = set(one.views())
    now += 3
    created = {view.sql for view in other.views().values()}
    other.replace(_view(sql="SELECT 2 AS a"))
    now += 3
    replaced = {view.sql for view in one.views().values()}
    one.remove(_view())
    now += 3

    assert at_once == {("s", "v")}
    assert (created, replaced, dict(other.views())) == ({"SELECT 1 AS a"}, {"SELECT 2 AS a"}, {})
