from __future__ import annotations

import re

from sparkport import Server

from .client import DuckDB

COLUMNS = """
    id INTEGER, i INTEGER, b BIGINT, ub UBIGINT, h HUGEINT, de DECIMAL(10, 2), f FLOAT, d DOUBLE, s VARCHAR,
    bl BLOB, dt DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, bo BOOLEAN, u UUID,
    l INTEGER[], st STRUCT(a INTEGER, b VARCHAR), mp MAP(VARCHAR, INTEGER), ar INTEGER[2]
"""

ROWS = """
SELECT
    n AS id,
    CASE WHEN n % 7 = 0 THEN NULL ELSE n % 20 - 5 END AS i,
    CASE WHEN n % 11 = 0 THEN NULL ELSE n * 1000000007 END AS b,
    CASE n % 5 WHEN 0 THEN 18446744073709551615 WHEN 1 THEN 0 ELSE n END AS ub,
    CASE n % 4 WHEN 0 THEN -99999999999999999999999999999999999999 WHEN 1 THEN NULL ELSE n END AS h,
    CASE WHEN n % 13 = 0 THEN NULL ELSE (n - 100) / 4 END AS de,
    CASE n % 6 WHEN 0 THEN 'NaN'::FLOAT WHEN 1 THEN '-Infinity'::FLOAT WHEN 2 THEN NULL ELSE n / 8 END AS f,
    CASE n % 7 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN 'Infinity'::DOUBLE WHEN 2 THEN NULL
        WHEN 3 THEN -0.0 WHEN 4 THEN 0.0 ELSE n / 3 END AS d,
    CASE n % 9 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'abc' WHEN 3 THEN 'ABC' WHEN 4 THEN 'a%b_c'
        WHEN 5 THEN 'Gr\u00fc\u00dfe' WHEN 6 THEN '\U0001f986' || n WHEN 7 THEN '12' ELSE 'abc' || n END AS s,
    CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN '\\xAA\\x00'::BLOB ELSE ('b' || n)::BLOB END AS bl,
    CASE n % 8 WHEN 0 THEN NULL WHEN 1 THEN 'infinity'::DATE WHEN 2 THEN '-infinity'::DATE
        ELSE DATE '2024-01-01' + n::INTEGER END AS dt,
    CASE WHEN n % 5 = 0 THEN NULL ELSE TIME '00:00:00' + INTERVAL (n * 400) SECOND END AS tm,
    CASE n % 10 WHEN 0 THEN NULL WHEN 1 THEN 'infinity'::TIMESTAMP
        ELSE TIMESTAMP '2024-01-01' + INTERVAL (n * 7) HOUR END AS ts,
    CASE WHEN n % 10 = 3 THEN NULL ELSE TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (n) HOUR END AS tz,
    CASE WHEN n % 4 = 0 THEN NULL ELSE INTERVAL (n) DAY END AS iv,
    CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN true ELSE false END AS bo,
    CASE WHEN n % 6 = 0 THEN NULL
        ELSE ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd38' || lpad(n::VARCHAR, 4, '0'))::UUID END AS u,
    CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN [] ELSE [n, NULL, n % 3] END AS l,
    CASE n % 5 WHEN 2 THEN NULL WHEN 3 THEN {'a': NULL, 'b': 'x'}
        ELSE {'a': (n % 10)::INTEGER, 'b': 'n' || n} END AS st,
    CASE WHEN n % 6 = 1 THEN NULL ELSE MAP {'k': (n % 4)::INTEGER, 'n': NULL} END AS mp,
    (CASE WHEN n % 9 = 1 THEN NULL ELSE [n % 2, NULL] END)::INTEGER[2] AS ar
FROM range(200) r(n)
"""

NUMBERS = """
i = 3 | 3 = i | i <> 3 | i < 3 | i <= 3 | i > 3 | i >= 3 | i = -5 | i = 100 | i = NULL | i IS NULL
i IS NOT NULL | i IS DISTINCT FROM 3 | i IS NOT DISTINCT FROM 3 | i IS DISTINCT FROM NULL
i IS NOT DISTINCT FROM NULL | i IN (1, 2, 3) | i NOT IN (1, 2, 3) | i IN (1, NULL) | i NOT IN (1, NULL)
i IN (1) | i IN (SELECT 2) | i BETWEEN 2 AND 4 | i NOT BETWEEN 2 AND 4 | i > 1 AND i < 5
i > 5 AND i < 1 | i BETWEEN NULL AND 4 | i + 1 = 4 | i * 2 = 6 | -i = 5 | i % 3 = 1 | i / 2 > 3
i // 2 = 3 | abs(i) = 5 | i * i > 50 | 10 - i < 3 | i = 3 OR i = 5 | i = 3 OR s = 'abc' | NOT (i = 3)
NOT (i = 3 OR i IS NULL) | i = 3 AND NOT (d > 5) | i = b | i < ub | i > d | i::BIGINT = 3
i::VARCHAR = '3' | i::DOUBLE = 3.0 | i > 2.5 | i = 3.5 | i = 2147483648 | b = 3000000021
b > 100000000700 | b < -1 | b IN (1000000007, 2000000014) | b % 2 = 0 | b IS NULL
ub = 18446744073709551615 | ub > 9223372036854775807 | ub = 0 | ub < 5 | ub BETWEEN 2 AND 10
h = -99999999999999999999999999999999999999 | h < 0 | h > 100 | h IS NULL | h = 7 | h + 1 = 8
de = 1.25 | de = 1.255 | de < -20 | de > 0.1 | de BETWEEN -1 AND 1 | de IN (0.25, 0.5) | de * 2 = 1.5
de::INT = 1 | f = 'NaN'::FLOAT | f > 5 | f < 0 | f = 1.5 | f >= '-Infinity'::FLOAT | f = 0.1
f <> 'NaN'::FLOAT | f IS NULL | d = 'NaN' | d > 1e300 | d < 'NaN' | d <= 'Infinity' | d > 'Infinity'
d = 0 | d = -0.0 | d < 0 | d <> 0 | isnan(d) | d IN ('NaN', 0) | d NOT IN ('NaN', 0)
d BETWEEN 0 AND 10 | d NOT BETWEEN 0 AND 10 | d IS DISTINCT FROM 'NaN' | d = f | d > f | isinf(d)
isfinite(d) | round(d) = 2 | d + 1 > 5 | NOT (d > 5) | NOT (d < 'NaN') | d::INT = 2 AND d < 9 | bo
NOT bo | bo = true | bo IS TRUE | bo IS NOT TRUE | bo IS FALSE | bo IS NOT FALSE | bo IS NULL
bo <> false | bo AND i > 3 | bo OR i > 3 | NOT bo OR i IS NULL | NOT (bo AND i > 3) | bo = (i > 3)
bo IN (true, NULL) | CASE WHEN i > 3 THEN bo ELSE false END | coalesce(i, 0) = 0 | nullif(i, 3) = 4
if(bo, i, 7) = 7 | greatest(i, 3) = 3 | CASE i WHEN 1 THEN 'x' WHEN 2 THEN 'y' END = 'y'
coalesce(s, 'none') = 'none' | ifnull(d, -1) = -1
"""

OTHERS = """
s = 'abc' | s = '' | s <> 'abc' | s < 'abc' | s > 'abc' | s >= 'Gr' | s BETWEEN 'a' AND 'b'
s IN ('abc', '', 'x') | s LIKE 'abc%' | s LIKE '%c' | s LIKE '%b%' | s LIKE 'a_c'
s LIKE 'a\\%b%' ESCAPE '\\' | s LIKE '%' | s LIKE '' | s NOT LIKE 'abc%' | s NOT LIKE '%b%'
s ILIKE 'AB%' | s NOT ILIKE '%B_' | s ~ 'a.*' | s SIMILAR TO '[a-z]+[0-9]*'
regexp_matches(s, '[0-9]$') | s GLOB 'a*' | s ^@ 'ab' | starts_with(s, 'AB') | ends_with(s, '1')
contains(s, '%') | lower(s) = 'abc' | upper(s) = 'ABC' | length(s) = 3 | s || 'x' = 'abcx' | s[1] = 'a'
substr(s, 2, 2) = 'bc' | s COLLATE NOCASE = 'abc' | s = 'Gr\u00fc\u00dfe' | s LIKE 'Gr%e'
s LIKE '\U0001f986%' | length(s) = 5 | trim(s) = '' | TRY_CAST(s AS INTEGER) = 12 | s IS NULL
s IS NOT NULL | s IS DISTINCT FROM 'abc' | strlen(s) > 5 | reverse(s) = 'cba' | bl = '\\xAA\\x00'::BLOB
bl > 'b1'::BLOB | bl < '\\xAA'::BLOB | bl IN ('b2'::BLOB, 'b5'::BLOB) | octet_length(bl) = 2
dt = DATE '2024-01-04' | dt > DATE '2024-05-01' | dt < DATE '2024-02-01' | dt = 'infinity'
dt > '-infinity' | dt BETWEEN '2024-01-01' AND '2024-02-01' | dt IN ('2024-01-04', 'infinity')
year(dt) = 2024 | isinf(dt) | dt IS NULL | dt + 1 = DATE '2024-01-05' | dt::TIMESTAMP < ts
date_trunc('month', dt) = DATE '2024-03-01' | dt - DATE '2024-01-01' = 3 | tm = TIME '00:06:40'
tm > TIME '12:00' | tm BETWEEN '01:00' AND '02:00' | hour(tm) = 3 | tm IS NULL
ts = TIMESTAMP '2024-01-02 11:00:00' | ts > '2024-02-01' | ts::DATE = DATE '2024-01-02'
ts = 'infinity' | ts < '2024-01-03' | ts BETWEEN '2024-01-02' AND '2024-01-05'
date_trunc('day', ts) = TIMESTAMP '2024-01-02' | ts IS NULL | isfinite(ts)
tz = TIMESTAMPTZ '2024-01-01 05:00:00+00' | tz > '2024-01-05 00:00:00+02' | tz IS NULL
tz IN ('2024-01-01 05:00:00+00') | iv = INTERVAL 2 DAY | iv > INTERVAL 90 DAY | iv > INTERVAL 3 MONTH
iv < INTERVAL 48 HOUR | iv IS NULL | u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380005'
u > 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380100' | u IS NULL
u IN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380005', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380007')
u::VARCHAR LIKE '%7' | l = [] | l = [2, NULL, 2] | l[1] = 3 | len(l) = 0 | list_contains(l, 4)
l IS NULL | l > [100] | l[-1] = 2 | 4 = ANY(l) | st.a = 5 | st.b = 'x' | st['b'] = 'n1' | st.a IS NULL
st IS NULL | st = {'a': NULL, 'b': 'x'} | st.a > 3 AND st.b < 'n5' | mp['k'] = 2 | mp['k'] IS NULL
mp IS NULL | map_contains(mp, 'k') | cardinality(mp) = 2 | mp['missing'] IS NULL | ar[1] = 1
ar = [1, NULL]::INTEGER[2] | ar IS NULL | (i, s) = (3, 'abc') | (i, s) IN ((3, 'abc'), (4, '')) | true
i = 3 AND s = 'abc' AND d > 0 | (i = 3 OR s = '') AND (d > 0 OR bo)
i > 3 AND (s LIKE 'a%' OR dt > '2024-03-01') OR bo | false | NULL | 1 = 1 AND i = 3 | i = 3 AND NULL
i = i | s = s | d = d | i <> i | random() >= 0 | id % 2 = 0 AND i > 0
"""

CLAUSES = [clause.strip() for clause in re.split(r" \| |\n", NUMBERS + OTHERS) if clause.strip()]


def _differences(duckdb: DuckDB, server: Server, clauses: list[str], *setup: str) -> list[str]:
    """Return the clauses that find other rows on the server than in a local copy."""
    queries = [
        f"SELECT list(id ORDER BY id) FROM {table} WHERE {clause}"
        for clause in clauses
        for table in ("db.s.t", "local")
    ]
    rows = duckdb.ask(server, "SET TimeZone = 'UTC'", *setup, *queries)[-len(queries) :]
    return [
        f"{clause}: {remote} instead of {local}"
        for clause, remote, local in zip(clauses, rows[::2], rows[1::2], strict=True)
        if remote != local
    ]


def test_filters_find_the_same_rows_as_in_a_local_table(duckdb: DuckDB, server: Server) -> None:
    """Whatever the server does with a WHERE clause, the rows are those of a local copy."""
    differences = _differences(
        duckdb,
        server,
        CLAUSES,
        "SET arrow_lossless_conversion = true",
        "CREATE SCHEMA db.s",
        f"CREATE TABLE db.s.t ({COLUMNS})",
        f"CREATE TABLE local ({COLUMNS})",
        f"INSERT INTO local {ROWS}",
        "INSERT INTO db.s.t FROM local",
    )

    assert len(CLAUSES) > 250
    assert differences == []


def test_filters_hold_while_statistics_are_used(duckdb: DuckDB, server: Server) -> None:
    """A table that offers statistics finds the same rows, too, before and after its ranges change."""
    flat = "id, i, b, ub, de, f, d, s, dt, tm, ts, tz, bo, u"
    nested = re.compile(r"\b(bl|h|iv|l|st|mp|ar)\b")
    clauses = [clause for clause in CLAUSES if not nested.search(clause)]
    rows = [
        "SET arrow_lossless_conversion = true",
        f"CREATE TABLE everything ({COLUMNS})",
        f"INSERT INTO everything {ROWS}",
    ]
    before = _differences(
        duckdb,
        server,
        clauses[::2],
        *rows,
        "CREATE SCHEMA db.s",
        f"CREATE TABLE db.s.t AS SELECT {flat} FROM everything WHERE id < 100",
        "CREATE TABLE local AS FROM db.s.t",
    )
    after = _differences(
        duckdb,
        server,
        clauses[1::2],
        *rows,
        f"INSERT INTO db.s.t SELECT {flat} FROM everything WHERE id >= 100",
        "DELETE FROM db.s.t WHERE i < 0 OR s IS NULL",
        "UPDATE db.s.t SET d = 1e9, dt = NULL WHERE id % 3 = 0",
        "CREATE TABLE local AS FROM db.s.t",
    )

    assert before == []
    assert after == []
