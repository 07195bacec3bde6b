"""Wrong queries: each is told what is wrong with it, and none is taken for a fault of the server."""

from __future__ import annotations

import re

import pytest

from sparkport.errors import InvalidRequestError, LimitExceededError, SparkportError
from sparkport.spark.catalog.catalog import SparkCatalog
from tests.spark.functions.calling import rows

PLACES = [
    ("SELEC 1", "Syntax error at or near 'SELEC' (line 1, position 1)"),
    ("SELECT 1 AS a\nFROM range(1) WHERE )", "(line 2, position 21)"),
    ("SELECT t.naem FROM (SELECT 1 AS name, 2 AS city) t", "column 't.naem' not found. Did you mean 'name'?"),
]

WRONG = [
    "SELEC 1",
    "SELECT 1 +",
    "SELECT 1 / id AS v FROM range(1)",
    "SELECT cast('x' || id AS INT) AS v FROM range(1)",
    "SELECT cast(id + 300 AS TINYINT) AS v FROM range(1)",
    "SELECT 2147483647 + 1 AS v",
    "SELECT 'a' || id RLIKE '(' AS v FROM range(1)",
    "SELECT split('a' || id, '(') AS v FROM range(1)",
    "SELECT 'a' || id LIKE 'a\\\\' AS v FROM range(1)",
    "SELECT str_to_map('a' || id, '(', '=') AS v FROM range(1)",
    "SELECT array(1)[5 + id] AS v FROM range(1)",
    "SELECT map('a', 1, 'a', 2) AS v",
    "SELECT map_from_arrays(array('a', 'a'), array(1, id)) AS v FROM range(1)",
    "SELECT map_from_arrays(array(1), array()) AS v",
    "SELECT (SELECT id FROM range(2)) AS v",
    "SELECT (SELECT id FROM range(2) WHERE id >= x.id) AS v FROM range(2) x",
    "SELECT from_json('{' || id, 'a INT', map('mode', 'FAILFAST')) AS v FROM range(1)",
    "SELECT from_json('{}', 'a NOTYPE') AS v",
    "SELECT from_csv('1' || id, 'a INT', map('mode', 'FAILFAST', 'sep', '')) AS v FROM range(1)",
    "SELECT from_csv('x' || id, 'a INT', map('mode', 'FAILFAST')) AS v FROM range(1)",
    "SELECT from_xml('<a>', 'a INT', map('mode', 'FAILFAST')) AS v FROM range(1)",
    "SELECT from_json('1', 'a INT', map('timeZone', 'Nowhere/Land')) AS v FROM range(1)",
    "SELECT schema_of_json('{' || 'x') AS v",
    "SELECT xpath_string('<a>' || id, 'a') AS v FROM range(1)",
    "SELECT xpath_string('<a>1</a>' || substr(id, 2), '][') AS v FROM range(1)",
    "SELECT xpath_string('<a>', 'a') AS v",
    (
        "SELECT xpath_int('<!DOCTYPE a SYSTEM \"http://127.0.0.1:1/x\"><a>1</a>' || substr(id, 2),"
        " 'a') AS v FROM range(1)"
    ),
    "SELECT parse_json('{' || id) AS v FROM range(1)",
    "SELECT variant_get(parse_json('\"x\"'), '$', 'int') AS v FROM range(1)",
    "SELECT date_format(date'2020-01-01' + cast(id AS INT), 'NONSENSE') AS v FROM range(1)",
    "SELECT make_timestamp(2020, 1, 1, 25, 61, 61) AS v FROM range(1)",
    "SELECT interval 106751991 day * 2 AS v FROM range(1)",
    "SELECT sequence(1, 10, -1) AS v",
    "SELECT sequence(1, cast(id AS INT) + 10, 0) AS v FROM range(1)",
    "SELECT sequence(0, 9223372036854775806) AS v",
    "SELECT array_repeat(1, 2147483647) AS v FROM range(1)",
    "SELECT format_string('%q', id) AS v FROM range(1)",
    "SELECT format_string('%d', 'x' || id) AS v FROM range(1)",
    "SELECT format_number(1.5 + id, '#.#.#') AS v FROM range(1)",
    "SELECT to_number('x' || id, '999') AS v FROM range(1)",
    "SELECT unbase64('!!' || id) AS v FROM range(1)",
    "SELECT decode(X'ff', 'utf-8') AS v FROM range(1)",
    (
        "SELECT aes_decrypt(cast('abcdefghijklmnopqrstuvwxyz' || id AS BINARY),"
        " '0000111122223333') AS v FROM range(1)"
    ),
    "SELECT raise_error('No space left on device ' || id) AS v FROM range(1)",
    "SELECT assert_true(id > 0) AS v FROM range(1)",
    "SELECT theta_sketch_estimate(X'0011') AS v FROM range(1)",
    "SELECT sum(sum(id)) AS v FROM range(1)",
    "SELECT id FROM range(1) LIMIT -1",
    "SELECT id FROM range(1) UNION SELECT 1, 2",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
    "WITH RECURSIVE r(n) AS (SELECT n FROM r) SELECT * FROM r",
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100000) SELECT"
        " max(n) AS v FROM r"
    ),
    "SELECT * FROM range(1, 2, 0)",
    "SELECT * FROM range(0, 10, 1, -5)",
    "SELECT * FROM range(0, 10, 1, 0)",
    "SELECT /*+ REPARTITION(0) */ * FROM range(1)",
    "SELECT * FROM VALUES (1 / 0)",
    "SELECT 'a' COLLATE NONSENSE AS v",
]

TOO_MUCH = [
    f"SELECT {'(' * 600}1{')' * 600} AS v",
    f"SELECT 1{' + 1' * 3000} AS v",
    f"SELECT {'array(' * 300}1{')' * 300} AS v",
    f"SELECT {'-(' * 500}1{')' * 500} AS v",
]


@pytest.mark.parametrize(("sql", "message"), PLACES)
def test_an_error_tells_the_place_or_a_near_name(catalog: SparkCatalog, sql: str, message: str) -> None:
    """So that a typing error is found at once."""
    with pytest.raises(SparkportError, match=re.escape(message)):
        rows(catalog, "query", sql)


@pytest.mark.parametrize("sql", WRONG)
def test_wrong_queries_are_told_what_is_wrong(catalog: SparkCatalog, sql: str) -> None:
    """Spark's sentence reaches the client, without Java's classes, paths and traces."""
    with pytest.raises(InvalidRequestError) as raised:
        rows(catalog, "query", sql)

    text = str(raised.value)
    assert text
    assert not re.search(r"org\.apache|java\.|Py4J|\bat \w+\.|/\w+/\w+|Job aborted|SQLSTATE|stage \d", text)


@pytest.mark.parametrize("sql", TOO_MUCH)
def test_queries_that_are_nested_too_deeply_are_refused(catalog: SparkCatalog, sql: str) -> None:
    """Neither Spark's parser nor Python's stack gives out."""
    with pytest.raises(InvalidRequestError, match=r"too complex|too deeply"):
        rows(catalog, "query", sql)


def test_words_of_a_query_are_not_taken_for_news_of_the_server(catalog: SparkCatalog) -> None:
    """A text that a client writes cannot make its error look like another."""
    said = "No space left on device; ConcurrentAppendException; SPARK_JOB_CANCELLED"
    with pytest.raises(InvalidRequestError, match="No space left on device"):
        rows(catalog, "query", f"SELECT raise_error('{said}' || id) AS v FROM range(1)")
    with pytest.raises(InvalidRequestError, match="cannot be cast"):
        rows(catalog, "query", f"SELECT cast('{said}' || id AS INT) AS v FROM range(1)")


def test_a_query_that_needs_too_much_memory_says_so(catalog: SparkCatalog) -> None:
    """Spark lives on: it is the statement that fails."""
    with pytest.raises(SparkportError) as raised:
        rows(catalog, "query", "SELECT repeat('x', 2147483647) AS v")

    assert isinstance(raised.value, LimitExceededError)
    assert rows(catalog, "query", "SELECT 1 AS one") == [{"one": 1}]
