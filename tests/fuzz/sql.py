"""Random and mutated SQL text through the session of a server: parser, binder, planner, system relations.

    python -m tests.fuzz.sql --count 1000000 --seed 1

Every input ends in an answer or in an error that a client may be told, within seconds.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from icestream.plan.duckdb import render as render_duckdb
from icestream.plan.linear import relations_read
from icestream.plan.query import bind_query
from icestream.plan.spark import render
from icestream.server.backend import Client
from icestream.server.service import Service
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.sql.session_statements import SystemQuery
from tests.fuzz.command import main
from tests.fuzz.served import Watch, check_error, open_service
from tests.unit.server.relations.cases import cases
from tests.unit.sql.test_robustness import TEXTS, WORDS

ROOT = Path(__file__).parent.parent
TOKEN = re.compile(r"\s+|\w+|'(?:[^']|'')*'|\"[^\"]*\"|.", re.DOTALL)
COLUMNS = (
    "id",
    "v",
    "name",
    "at",
    "n",
    "d",
    "j",
    "a",
    "t.id",
    "u.price",
    "u.day",
    "ok",
    "b",
    "x",
    "*",
)
VALUES = (
    "0", "1", "-1", "2147483648", "1e400", "1.5", "'a'", "'1'", "NULL", "TRUE", "DATE '2024-01-01'",
    "INTERVAL '1 day'", "'2024-02-30'", "ARRAY[1, 2]", "'{}'::jsonb", "E'\\\\x'", "x'ff'", "now()", "'NaN'",
    "9223372036854775808", "''", "'\U0001f600'", "$1", "NULL::int[]", "ROW(1, 2)",
)  # fmt: skip
BINARY = (
    "+", "-", "*", "/", "%", "=", "<>", "<", ">=", "AND", "OR", "||", "IS DISTINCT FROM", "LIKE", "~", "->", "->>",
    "&", "|", "#", "<<", "^", "AT TIME ZONE", "IN", "= ANY", "@>", "SIMILAR TO",
)  # fmt: skip
FUNCTIONS = (
    "abs", "sum", "count", "max", "coalesce", "nullif", "substr", "date_trunc", "to_char", "array_agg", "round", "now",
    "generate_series", "unnest", "jsonb_build_object", "string_agg", "regexp_replace", "row_number", "lag", "extract",
    "greatest", "format", "split_part", "width_bucket", "md5", "avg", "first_value", "pg_get_expr", "format_type",
    "current_setting", "pg_typeof", "to_timestamp", "make_date", "array_position", "percentile_cont",
)  # fmt: skip
TYPES = ("int", "bigint", "varchar", "numeric(5, 2)", "timestamptz", "date", "jsonb", "int[]", "boolean", "bytea", "real", "interval", "regclass", "nothing")  # fmt: skip
RELATIONS = ("t", "u", "s", "w", "m", "nowhere", "pg_class", "pg_catalog.pg_type", "information_schema.columns", "rw_catalog.rw_tables", "pg_stat_activity", '"t$snapshots"', "dead_letters.s")  # fmt: skip


class Grammar:
    """Random statements, most of which nearly make sense."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def one(self, *items: str) -> str:
        return self.r.choice(items)

    def expression(self, depth: int = 3) -> str:
        r = self.r
        if depth <= 0 or r.random() < 0.25:
            return r.choice(COLUMNS[:-1]) if r.random() < 0.5 else r.choice(VALUES)
        below = depth - 1
        match r.randrange(9):
            case 0 | 1:
                return f"{self.expression(below)} {r.choice(BINARY)} {self.expression(below)}"
            case 2:
                given = ", ".join(self.expression(below) for _ in range(r.randrange(4)))
                over = f" OVER ({self.window(below)})" if r.random() < 0.2 else ""
                where = f" FILTER (WHERE {self.expression(below)})" if r.random() < 0.1 else ""
                return f"{r.choice(FUNCTIONS)}({self.one('', '', 'DISTINCT ')}{given}){where}{over}"
            case 3:
                return f"({self.expression(below)})::{r.choice(TYPES)}"
            case 4:
                return f"CASE WHEN {self.expression(below)} THEN {self.expression(below)} ELSE {self.expression(below)} END"
            case 5:
                return f"({self.query(below)})"
            case 6:
                return (
                    f"{self.one('EXISTS', 'NOT EXISTS', '1 IN', 'v = ALL')} ({self.query(below)})"
                )
            case 7:
                return f"{self.one('-', 'NOT ', '~', '+')}{self.expression(below)}"
        return f"{self.expression(below)} {self.one('BETWEEN 1 AND 2', 'IS NULL', 'IN (1, 2)', 'IS TRUE', '[1]', 'COLLATE x')}"

    def window(self, depth: int) -> str:
        parts = f"PARTITION BY {self.expression(depth - 1)}" if self.r.random() < 0.6 else ""
        order = f" ORDER BY {self.expression(depth - 1)}" if self.r.random() < 0.7 else ""
        frame = self.one(
            "", "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " RANGE UNBOUNDED PRECEDING"
        )
        return parts + order + frame

    def relation(self, depth: int) -> str:
        r = self.r
        match r.randrange(8) if depth > 0 else 0:
            case 5:
                return f"({self.query(depth - 1)}) AS {self.one('x', 'y', 't')}"
            case 6:
                return f"{self.relation(depth - 1)} {self.one('', 'LEFT ', 'FULL ', 'CROSS ', 'NATURAL ')}JOIN {self.relation(depth - 1)} {self.one('ON TRUE', 'USING (id)', 'ON t.id = u.t_id', '')}"
            case 7:
                return self.one("TUMBLE(s, ts, INTERVAL '10 s')", "generate_series(1, 3) AS g(x)", "unnest(ARRAY[1]) AS x", "LATERAL (SELECT t.id) AS l", "VALUES (1)", "HOP(s, ts, INTERVAL '1 s', INTERVAL '0 s')")  # fmt: skip
        return r.choice(RELATIONS)

    def query(self, depth: int = 3) -> str:
        r = self.r
        items = ", ".join(
            self.one("*", "x.*", f"{self.expression(depth)} AS x", self.expression(depth))
            for _ in range(r.randrange(1, 4))
        )
        text = f"SELECT {self.one('', '', 'DISTINCT ', 'DISTINCT ON (v) ')}{items}"
        if r.random() < 0.85:
            text += " FROM " + ", ".join(
                self.relation(depth) for _ in range(r.choice((1, 1, 1, 2)))
            )
        for clause, likely in (
            ("WHERE", 0.3),
            ("GROUP BY", 0.2),
            ("HAVING", 0.1),
            ("ORDER BY", 0.2),
        ):
            if r.random() < likely:
                text += f" {clause} {self.expression(depth - 1)}"
        if r.random() < 0.1:
            text += f" LIMIT {self.one('1', '0', 'ALL', 'v', '-1', '99999999999999999999')}"
        if depth > 0 and r.random() < 0.1:
            text += (
                f" {self.one('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')} {self.query(depth - 1)}"
            )
        if depth > 1 and r.random() < 0.08:
            text = f"WITH x AS ({self.query(depth - 1)}) {text}"
        return text

    def statement(self) -> str:
        query = self.query()
        match self.r.randrange(14):
            case 0:
                return (
                    f"CREATE MATERIALIZED VIEW z AS {query}{self.one('', ' EMIT ON WINDOW CLOSE')}"
                )
            case 1:
                return f"CREATE VIEW z AS {query}"
            case 2:
                return f"EXPLAIN {query}"
            case 3:
                return (
                    f"CREATE SINK z AS {query} WITH (connector = 'blackhole', type = 'append-only')"
                )
            case 4:
                return f"INSERT INTO t (id, v) {self.one(query, 'VALUES (' + self.expression() + ', 1)')}"
            case 5:
                return f"UPDATE t SET v = {self.expression()} WHERE {self.expression()}"
            case 6:
                return f"DELETE FROM t WHERE {self.expression()} RETURNING {self.expression(1)}"
            case 7:
                return f"CREATE TABLE z (a {self.r.choice(TYPES)} DEFAULT {self.expression(1)}, b INT AS {self.expression(1)})"
        return query


class SqlFuzzer:
    """Inputs from three sources: the grammar, known statements with edits, and queries of tools over system relations."""

    def __init__(self, service: Service, seed: int) -> None:
        self.r = random.Random(seed)
        self.service = service
        self.session = service.open(Client("root", "dev", {}))
        self.names = service.engine.catalog.names()
        self.grammar = Grammar(self.r)
        slt = [f.read_text() for f in sorted((ROOT / "slt").rglob("*.slt"))]
        golden = [f.read_text() for f in sorted((ROOT / "sql").rglob("*.sql"))]
        self.texts = [*TEXTS, *(s for text in [*slt, *golden] for s in _statements(text))]
        self.system = [case.sql for case in cases()]

    def text(self) -> str:
        """The next input."""
        which = self.r.random()
        if which < 0.4:
            made = self.grammar.statement()
            return self.edited(made) if self.r.random() < 0.3 else made
        return self.edited(self.r.choice(self.texts if which < 0.8 else self.system))

    def edited(self, text: str) -> str:
        """A text with some tokens removed, doubled, moved or exchanged."""
        r, tokens = self.r, TOKEN.findall(text[:4000]) or [""]
        for _ in range(r.randrange(4)):
            at, other = r.randrange(len(tokens)), r.randrange(len(tokens))
            match r.randrange(7):
                case 0:
                    tokens[at] = ""
                case 1:
                    tokens[at] = tokens[at] * 2
                case 2:
                    tokens[at], tokens[other] = tokens[other], tokens[at]
                case 3:
                    tokens[at] = r.choice(WORDS)
                case 4:
                    tokens[at] = self.grammar.expression(1)
                case 5:
                    tokens[at] = tokens[at][: r.randrange(len(tokens[at]) + 1)] + chr(r.choice((0, 39, 34, 92, 0xD7FF, 0x202E, 123, r.randrange(0xD800))))  # fmt: skip
                case 6:
                    tokens[at:at] = TOKEN.findall(r.choice(self.texts))[:20]
        return "".join(tokens)

    def check(self, text: str) -> None:
        """Give one input to the session; raise AssertionError if it finds a mistake of ours."""
        try:
            requests = self.session.parse(text)
        except Exception as error:
            check_error(error, repr(text))
            return
        for request in requests:
            try:
                description = self.session.describe(request, [])
                if isinstance(request, SystemQuery):
                    list(self.session.run(request, [], description).rows or ())
                else:
                    self.plan(request.text)
            except Exception as error:
                check_error(error, repr(text))
            self.session.finish()

    def plan(self, text: str) -> None:
        """What the engine does with a statement before it needs Spark."""
        for statement in parse(text, "<sql>", {}):
            if isinstance(statement, st.Select):
                node = bind_query(statement.query, self.names.relation)
                inputs = dict.fromkeys(relations_read(node), "t")
                render(node, inputs)
                render_duckdb(node, inputs, 0)
            elif isinstance(statement, st.CreateView | st.CreateTable | st.CreateSink):
                self.service.engine.catalog.examine(statement)
            elif isinstance(statement, st.Explain):
                self.service.engine.execute(text, env={})


def _statements(text: str) -> list[str]:
    blocks = re.split(r"\n\s*\n|----|;", text)
    return [b.strip() for b in blocks if len(b.strip()) > 8 and not b.lstrip().startswith("#")]


def run(count: int, seed: int) -> int:
    """Try so many inputs; gives their number."""
    watch = Watch(count)
    with open_service() as service:
        fuzzer = SqlFuzzer(service, seed)
        for _ in range(count):
            text = fuzzer.text()
            with watch.input(repr(text)):
                fuzzer.check(text)
    return count


if __name__ == "__main__":
    main(__doc__, run)
