"""LIKE as DuckDB is told it: every pattern takes one pass over the text. Regular expressions as Spark is told them."""

from __future__ import annotations

import random
import threading
import time

import pytest

from icestream.dev.duck import open_duckdb
from icestream.functions import render
from icestream.functions.duckdb import Expressions
from icestream.functions.expression_errors import RAISE, CountFailures
from icestream.functions.patterns import has_backtracking, like_parts, like_pattern
from icestream.plan.logical import Project
from tests.seeds import draw_seed
from tests.unit.functions.support import bound, rendered
from tests.unit.plan.tables import bind


def matches(text: str, pattern: str) -> bool:
    """What LIKE means, one place after the other: all places in the pattern that are reached so far."""
    parts = like_parts(pattern, "\\")
    flat: list[str | None] = []
    for n, part in enumerate(parts):
        flat += (["%"] if n else []) + [c if c is None else f"={c}" for c in part]

    def close(places: set[int]) -> set[int]:
        for at in range(len(flat)):
            if at in places and flat[at] == "%":
                places.add(at + 1)
        return places

    reached = close({0})
    for c in text:
        stay = {at for at in reached if at < len(flat) and flat[at] == "%"}
        step = {at + 1 for at in reached if at < len(flat) and flat[at] in (None, f"={c}")}
        reached = close(stay | step)
    return len(flat) in reached


def local_text(text: str, pattern: str) -> str:
    """What DuckDB is asked for x LIKE pattern, with a text for x."""
    quoted = pattern.replace("'", "''")
    node = bind(f"SELECT name LIKE '{quoted}' FROM customers")
    assert isinstance(node, Project)
    written = text.replace("'", "''")
    return f"SELECT {Expressions(0).visit(node.items[0].expr)} FROM (SELECT '{written}' AS name)"


def test_patterns_mean_what_like_means() -> None:
    r, database = random.Random(draw_seed("like")), open_duckdb()
    hits = 0
    for _ in range(600):
        text = "".join(r.choices("aaab%_\\.ä\n", k=r.randint(0, 7)))
        tokens = [*"%%%%__aab.ä", "\\%", "\\_", "\\\\", "\\a"]
        pattern = "".join(r.choices(tokens, k=r.randint(0, 6)))
        expected = matches(text, pattern)
        hits += expected
        parts = like_parts(pattern, "\\")
        ((found,),) = database.execute(local_text(text, pattern)).fetchall()
        assert found == expected, (text, pattern)
        assert like_parts(like_pattern(parts), "\\") == parts
    assert 50 < hits < 550


def test_wildcards_in_a_row_are_one() -> None:
    assert like_pattern(like_parts("a%%%b", "\\")) == "a%b"
    assert not has_backtracking(like_parts("%%%ab%%%", "\\"))
    assert has_backtracking(like_parts("%a%b", "\\"))


@pytest.mark.parametrize("pattern", ["%a" * 30 + "b", "%_" * 30 + "b", "%%%%%a%%%%%a%%a%%%_b"])
def test_no_pattern_takes_more_than_one_pass(pattern: str) -> None:
    text = "a" * 3000
    began = time.monotonic()
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.append(open_duckdb().sql(local_text(text, pattern)).fetchone()),
        daemon=True,
    )
    thread.start()
    thread.join(20)
    assert found == [(False,)]
    assert time.monotonic() - began < 10


REGEXES = {
    "s ~ 'a$'": r"icestream_regex_matches(`t`.`s`, '(?Us)a\\z')",
    "s !~* 'a'": "(NOT icestream_regex_matches(`t`.`s`, '(?Uius)a'))",
    "s ~ s": "icestream_regex_matches(`t`.`s`, concat('(?Us)', `t`.`s`))",
    "s SIMILAR TO '(a|b)%'": r"icestream_regex_matches(`t`.`s`, '(?Us)\\A(?:(?:a|b).*)\\z')",
    "s SIMILAR TO '%a%b'": "icestream_like(`t`.`s`, '%a%b')",
    "s LIKE '%a%b'": "icestream_like(`t`.`s`, '%a%b')",
    "s LIKE '%a%'": "(`t`.`s` LIKE '%a%')",
    "s ILIKE s": "icestream_like(lower(`t`.`s`), lower(`t`.`s`))",
    "regexp_like(s, 'a', 'x')": "icestream_regex_matches(`t`.`s`, '(?Uxs)a')",
    "regexp_count(s, 'a')": "icestream_regex_count(`t`.`s`, '(?Us)a')",
    "regexp_match(s, '(a)')": "get(icestream_regex_groups(`t`.`s`, '(?Us)(a)'), 0)",
    "regexp_substr(s, '(a)')": "get(icestream_regex_substring(`t`.`s`, '(?Us)(a)', 0), 0)",
    "substring(s from '(a)')": "get(icestream_regex_substring(`t`.`s`, '(?Us)(a)', 1), 0)",
    "regexp_split_to_array(s, 'a')": "icestream_regex_split(`t`.`s`, '(?Us)a')",
    "regexp_replace(s, 'a', s)": "icestream_regex_replace(`t`.`s`, '(?Us)a', `t`.`s`, FALSE)",
    "regexp_replace(s, 'a', s, 'g')": "icestream_regex_replace(`t`.`s`, '(?Us)a', `t`.`s`, TRUE)",
}


@pytest.mark.parametrize("sql", REGEXES)
def test_no_pattern_of_a_user_is_matched_by_sparks_own_functions(sql: str) -> None:
    assert rendered(sql) == REGEXES[sql]


def test_a_failure_is_told_from_no_match() -> None:
    """The guard stands around the value that is NULL only for a failure."""
    expr = bound("coalesce(substring(s from 'a'), s)")
    failed = "icestream_failed(7, `t`.`s` IS NOT NULL)"
    value = "icestream_regex_substring(`t`.`s`, '(?Us)a', 1)"
    text = render(expr, failures=CountFailures(7))
    assert text == f"coalesce(get(coalesce({value}, {failed}), 0), `t`.`s`)"
    raising = render(bound("s ~ 'a'"), failures=RAISE)
    assert "raise_error(concat('2201B|', icestream_regex_problem('(?Us)a')))" in raising
