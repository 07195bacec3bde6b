"""Cutting changes in Spark SQL into their parts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.spark.statements.changes import Clause, MergeUpdate, parse_change
from sparkport.spark.statements.tokens import first_word
from sparkport.spark.statements.value_lists import are_parameters, parameter_types
from sparkport.sql.changes import Delete, Insert, Update


def test_words_in_texts_names_and_comments_do_not_cut() -> None:
    """Only words outside of texts, names, comments, parentheses and CASE separate the parts."""
    update = parse_change(
        "/* WHERE */ UPDATE `a``b`.ü AS t SET x = 'WHERE, ''' -- , WHERE\n || `WHERE`,"
        " t.y = CASE WHEN a THEN (b, c) END WHERE z = r'\\' AND true;",
        {"class": "x.UpdateTable", "condition": [{"class": "x.And"}]},
    )

    assert update == Update(
        ("a`b", "ü"),
        "t",
        (("x", "'WHERE, ''' -- , WHERE\n || `WHERE`"), ("y", "CASE WHEN a THEN (b, c) END")),
        "",
        "",
        "z = r'\\' AND true",
    )


def test_clauses_of_a_merge_are_told_from_those_of_case() -> None:
    """A WHEN within CASE belongs to an expression; a second UPDATE is a clause of its own."""
    merge = parse_change(
        "MERGE INTO s.t USING o VERSION AS OF 3 AS o2 ON t.a = CASE WHEN o2.a > 1 THEN o2.a END"
        " WHEN MATCHED AND o2.b = 1 THEN UPDATE SET t.c = CASE WHEN true THEN 1 END, d = 2"
        " WHEN MATCHED THEN UPDATE SET *",
        {"class": "x.MergeIntoTable"},
    )

    assert merge == MergeUpdate(
        ("s", "t"),
        "",
        "o VERSION AS OF 3 AS o2",
        "o2",
        "t.a = CASE WHEN o2.a > 1 THEN o2.a END",
        (
            Clause("o2.b = 1", (("c", "CASE WHEN true THEN 1 END"), ("d", "2"))),
            Clause(""),
        ),
    )


def test_the_plan_tells_columns_from_a_query() -> None:
    """A parenthesis after the table begins its columns only if Spark has found some."""
    columns = {"class": "x.InsertIntoStatement", "userSpecifiedCols": "[a, b]", "overwrite": False}
    none = {"class": "x.InsertIntoStatement", "userSpecifiedCols": "[]", "overwrite": False}

    assert parse_change("INSERT INTO t (a, `b`) VALUES (1, 2)", columns) == Insert(
        ("t",), ("a", "b"), "VALUES (1, 2)", by_name=False
    )
    assert parse_change("INSERT INTO TABLE t (SELECT 1)", none) == Insert(
        ("t",), (), "(SELECT 1)", by_name=False
    )
    assert parse_change("DELETE FROM t", {"class": "x.DeleteFromTable"}) == Delete(("t",), "", "", "", "")


@pytest.mark.parametrize(
    ("sql", "kind", "error"),
    [
        ("UPDATE t SET s.f = 1", "UpdateTable", NotImplementedByServerError),
        ("UPDATE t SET a = end", "UpdateTable", InvalidRequestError),
        ("DELETE FROM t /* a /* b */ */", "DeleteFromTable", InvalidRequestError),
        ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", "InsertIntoDir", NotImplementedByServerError),
        (
            "MERGE INTO t USING s ON a WHEN MATCHED AND b THEN DELETE WHEN MATCHED THEN UPDATE SET *",
            "MergeIntoTable",
            NotImplementedByServerError,
        ),
        (
            "MERGE INTO t USING s ON a WHEN NOT MATCHED AND b THEN INSERT * WHEN NOT MATCHED THEN INSERT *",
            "MergeIntoTable",
            NotImplementedByServerError,
        ),
    ],
)
def test_what_cannot_be_cut_is_refused(sql: str, kind: str, error: type[Exception]) -> None:
    """Whatever would be cut wrongly, or would not be one commit, is an error."""
    with pytest.raises(error):
        parse_change(sql, {"class": f"x.{kind}"})


def test_parameters_of_values_have_their_columns() -> None:
    """A parameter that is stored as it is has the type of its column; in an expression it has none."""
    columns = [pa.field("a", pa.int8()), pa.field("b", pa.date32())]

    assert parameter_types("VALUES (?, ?), (? + 1, coalesce(?, ?)), (?, ?)", columns) == {
        0: pa.int8(),
        1: pa.date32(),
        5: pa.int8(),
        6: pa.date32(),
    }
    assert parameter_types("SELECT ?", columns) == {}
    assert are_parameters("VALUES (?, ?)", 2)
    assert not are_parameters("VALUES (?, ?)", 3)
    assert not are_parameters("VALUES (?, ?), (?, ?)", 2)


def test_a_condition_is_never_lost() -> None:
    """A comment ends where it does for Spark; should a condition be missed all the same, nothing runs."""
    found = {"class": "x.DeleteFromTable", "condition": [{"class": "x.EqualTo"}]}
    always = {"class": "x.DeleteFromTable", "condition": [{"class": "x.Literal", "value": "true"}]}

    assert parse_change("DELETE FROM t -- x\r WHERE a = 1", found) == Delete(("t",), "", "", "", "a = 1")
    assert parse_change("DELETE FROM t -- x\\\n WHERE a = 1", always) == Delete(("t",), "", "", "", "")
    assert parse_change("DELETE FROM t WHERE true", always) == Delete(("t",), "", "", "", "true")
    with pytest.raises(InvalidRequestError):
        parse_change("DELETE FROM t", found)
    with pytest.raises(InvalidRequestError):
        parse_change("UPDATE t SET a = 1 WHERE b", {"class": "x.UpdateTable"})


def test_the_first_word_is_found_behind_comments() -> None:
    """What a statement is does not depend on comments before it."""
    assert first_word("-- DELETE\n /* INSERT */ update t") == "UPDATE"
    assert first_word("") == ""
