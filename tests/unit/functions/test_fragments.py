"""Names of lambda variables in rendered expressions."""

from __future__ import annotations

import contextlib
import re

import pytest

from icestream.errors import IcestreamError
from icestream.functions.fragments import each, fresh, let, string
from tests.unit.functions.support import rendered


@pytest.mark.parametrize("digits", ["1", "999999", "1000000", "9" * 5000])
def test_literals_do_not_disturb_variables(digits: str) -> None:
    literal = f"_v{digits}"
    names = fresh(3, string(literal), "f(_v2)")
    assert len({*names, literal, "_v2"}) >= 4
    assert literal not in names
    assert "_v2" not in names
    assert all(len(name) <= 3 for name in names)
    text = rendered(f"upper('{literal}' || s) || split_part(s || '{literal}', s, 2)")
    assert digits in text


def test_nested_variables_are_distinct() -> None:
    def nest(depth: int, value: str) -> str:
        if not depth:
            return f"f({value}, {value}, '_v3', '_v999999')"
        return let(f"g({value})", lambda v: each(f"h({v}, {v})", lambda e: nest(depth - 1, e + v)))

    text = nest(4, "x")
    variables = re.findall(r"(_v\d+) ->", text)
    assert variables
    for at in (m for m in re.finditer(r"(_v\d+) ->", text)):
        assert text.count(f"{at[1]} ->") == 1


@pytest.mark.parametrize(
    "sql",
    [f"s::numeric({'9' * 5000})", f"s::varchar({'9' * 5000})", f"format('%{'9' * 5000}$s', s)",
     f"format('%{'9' * 5000}s', s)", "s ~ '\\²'", "regexp_replace(s, 'a', '\\²')"],
)  # fmt: skip
def test_numbers_of_any_length_are_no_internal_error(sql: str) -> None:
    with contextlib.suppress(IcestreamError):
        rendered(sql)
