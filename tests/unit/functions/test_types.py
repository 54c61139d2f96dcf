"""The types expressions get: PostgreSQL's, without asking PostgreSQL (the grid test does)."""

from __future__ import annotations

import pytest

from icestream.functions.expressions import Literal
from tests.unit.functions.support import bound, type_of


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("1", "integer"),
        ("2147483648", "bigint"),
        ("9223372036854775808", "numeric(38,10)"),
        ("1.5", "numeric(38,10)"),
        ("1e37", "numeric(38,0)"),
        ("1e38", "double precision"),
        ("-1.7976931348623157e308", "double precision"),
        ("1e-38", "numeric(38,38)"),
        ("1e-39", "double precision"),
        ("12345678901234567890.123456789012345678901", "numeric(38,18)"),
        ("'text'", "varchar"),
        ("NULL", "varchar"),
        ("i2 + i2", "smallint"),
        ("i2 + i", "integer"),
        ("i + l", "bigint"),
        ("i / 2", "integer"),
        ("i + 1.5", "numeric(38,10)"),
        ("l + 1.5", "numeric(38,10)"),
        ("price * price", "numeric(38,10)"),
        ("wide * price", "numeric(38,18)"),
        ("i + r", "double precision"),
        ("r + r", "real"),
        ("n + d", "double precision"),
        ("i::numeric", "numeric(38,10)"),
        ("l::numeric", "numeric(38,10)"),
        ("s::numeric(6,2)", "numeric(6,2)"),
        ("s || i", "varchar"),
        ("day + 1", "date"),
        ("day - day", "integer"),
        ("day + interval '1 day'", "timestamp"),
        ("ts - ts", "interval"),
        ("ts - '2024-01-01'", "interval"),
        ("tz - interval '1 day'", "timestamptz"),
        ("ts AT TIME ZONE 'UTC'", "timestamptz"),
        ("tz AT TIME ZONE 'UTC'", "timestamp"),
        ("date_trunc('day', day)", "timestamptz"),
        ("extract(epoch FROM ts)", "numeric(38,10)"),
        ("round(2.5)", "numeric(38,10)"),
        ("round(i)", "double precision"),
        ("coalesce(i, 1.5)", "numeric(38,10)"),
        ("coalesce(NULL, 'x')", "varchar"),
        ("CASE WHEN b THEN 1 ELSE l END", "bigint"),
        ("CASE WHEN b THEN price END", "numeric(10,2)"),
        ("greatest(i, d)", "double precision"),
        ("ARRAY[1, 2.5]", "numeric(38,10)[]"),
        ("ia || 5", "integer[]"),
        ("ia[1]", "integer"),
        ("ia[1:2]", "integer[]"),
        ("(st).a", "integer"),
        ('(st)."B"', "varchar"),
        ("row(1, 'x')", "struct<f1 integer, f2 varchar>"),
        ("m['k']", "integer"),
        ("j -> 'a' ->> 'b'", "varchar"),
        ("j -> 'a'", "jsonb"),
        ("count(*)", "bigint"),
        ("sum(i)", "bigint"),
        ("sum(l)", "numeric(38,0)"),
        ("sum(price)", "numeric(38,10)"),
        ("sum(r)", "real"),
        ("avg(i)", "numeric(38,10)"),
        ("avg(d)", "double precision"),
        ("array_agg(s ORDER BY i)", "varchar[]"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY i)", "integer"),
        ("row_number() OVER (ORDER BY i)", "bigint"),
        ("lag(s) OVER (ORDER BY i)", "varchar"),
        ("now()", "timestamptz"),
        ("current_date", "date"),
    ],
)
def test_type(sql: str, wanted: str) -> None:
    assert type_of(sql) == wanted


def test_negative_numbers_keep_their_digits() -> None:
    text = "1234567890123456789012345678.9876543211"
    expr = bound(f"-{text}")
    assert isinstance(expr, Literal)
    assert str(expr.value) == f"-{text}"
