"""Questions about the system, answered: PostgreSQL's SQL in, rows with PostgreSQL's types out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import duckdb
from sqlglot import exp

from icestream.server.relations.database import Signal, SystemDatabase
from icestream.server.relations.datatypes import (
    BUILT_IN,
    REGISTERED,
    from_duck,
    known,
    named,
    ours,
)
from icestream.server.relations.dialect import function_name, parse, type_name
from icestream.server.relations.errors import SystemQueryError, translated
from icestream.server.relations.functions import macros
from icestream.server.relations.inference import Declared, relation_of
from icestream.server.relations.model import Model, Session
from icestream.server.relations.rewrite import Rewritten, array_items, rewrite
from icestream.server.relations.schema import SCHEMAS, relations
from icestream.server.relations.tables import RESTLESS, STORED
from icestream.types import Type

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result. `pg_type` is PostgreSQL's name of its type, as in pg_type."""

    name: str
    pg_type: str

    @property
    def type(self) -> Type:
        """Its type among ours and the ones that only catalogs have: oid, name, "char", int2vector, …"""
        return ours(self.pg_type)

    @property
    def oid(self) -> int:
        """The OID of its type."""
        return BUILT_IN[self.pg_type].oid


@dataclass(frozen=True)
class Description:
    """What is known of a query before it runs: the types of $1, $2, …, and its columns."""

    parameters: tuple[Type, ...]
    columns: tuple[ResultColumn, ...]


@dataclass(frozen=True)
class Result:
    """Rows of plain Python values. `settings` is what the query asked to be set for the session (set_config)."""

    columns: tuple[ResultColumn, ...]
    rows: list[tuple[Any, ...]]
    settings: tuple[tuple[str, str], ...] = ()


class SystemRelations:
    """Answers queries over system relations. The model is asked for before each; threads may share one object.

    Parts of it that are `costly` to make are asked for only when a query names a relation that shows them.
    """

    def __init__(
        self,
        model: Callable[[], Model],
        costly: Mapping[str, Callable[[], Any]] | None = None,
        signal: Signal = lambda pid, what: False,
    ) -> None:
        """`signal` does what pg_cancel_backend and pg_terminate_backend ask for."""
        self._model = model
        self._costly = costly or {}
        self._database = SystemDatabase(signal)

    def _current(self, sql: str) -> Model:
        named = {part for name in RESTLESS if name in sql for part in STORED[name][1]}
        asked = {part: ask() for part, ask in self._costly.items() if part in named}
        return replace(self._model(), **asked) if asked else self._model()

    def query(
        self,
        sql: str,
        parameters: Sequence[object] = (),
        session: Session = Session(),
        running: Callable[[Callable[[], None]], None] | None = None,
        declared: Sequence[Type | None] = (),
    ) -> Result:
        """Run one query. Parameters are texts, or values of the types that `describe` gives for the same declared ones.

        `running` is called before, with a function that any thread may call to make the query fail soon.
        """
        rewritten = _rewritten(sql, _declared(declared))
        values = _values(rewritten, parameters)
        with self._database.cursor(self._current(rewritten.sql), session, rewritten.sql) as cursor:
            if running:
                running(cursor.interrupt)
            columns, rows = _run(cursor, rewritten, values)
            rows = _printed(cursor, columns, rows)
        return Result(columns, rows, _settings(rewritten, values))

    def describe(
        self, sql: str, session: Session = Session(), declared: Sequence[Type | None] = ()
    ) -> Description:
        """The types of a query's parameters and columns, without running it. A declared type stays as it is."""
        rewritten = _rewritten(sql, _declared(declared))
        empty = Rewritten(
            f"SELECT * FROM ({rewritten.sql}) LIMIT 0",
            rewritten.parameters,
            rewritten.used,
            rewritten.outputs,
            rewritten.settings,
        )
        with self._database.cursor(self._current(rewritten.sql), session, rewritten.sql) as cursor:
            columns, _ = _run(cursor, empty, [None] * len(rewritten.parameters))
        return Description(tuple(map(ours, rewritten.parameters)), columns)


def _declared(types: Sequence[Type | None]) -> Declared:
    """Types that clients declare, by PostgreSQL's names. One that it does not have is left open."""
    found = (known(type) or BUILT_IN.get(type.name) if type else None for type in types)
    return tuple(type.name if type else None for type in found)


@lru_cache(maxsize=1000)
def _rewritten(sql: str, declared: Declared) -> Rewritten:
    try:
        return rewrite(sql, declared)
    except SystemQueryError:
        raise
    except RecursionError:
        raise SystemQueryError("stack depth limit exceeded", "54001") from None
    except Exception:
        # sqlglot has no promise about odd input; the client's text is at fault, not the server.
        _log.debug("not understood: %s", sql, exc_info=True)
        raise SystemQueryError("this query about the system is not understood", "0A000") from None


def _run(
    cursor: duckdb.DuckDBPyConnection, query: Rewritten, values: list[object]
) -> tuple[tuple[ResultColumn, ...], list[tuple[Any, ...]]]:
    try:
        cursor.execute(query.sql, {number: values[int(number) - 1] for number in query.used})
        found = [(str(name), from_duck(str(type))) for name, type, *_ in cursor.description or ()]
        rows = cursor.fetchall()
    except duckdb.Error as error:
        raise translated(str(error)) from None
    outputs = query.outputs if query.outputs and len(query.outputs) == len(found) else [(n, None) for n, _ in found]  # fmt: skip
    columns = []
    for (name, type), (_, fallback) in zip(outputs, found, strict=True):
        known = type or fallback
        columns.append(ResultColumn(name, known if known in BUILT_IN else "text"))
    return tuple(columns), rows


def _values(query: Rewritten, parameters: Sequence[object]) -> list[object]:
    if len(parameters) != len(query.parameters):
        needed = len(query.parameters)
        message = (
            f"bind message supplies {len(parameters)} parameters, but the query requires {needed}"
        )
        raise SystemQueryError(message, "08P01")
    return [
        array_items(value) if isinstance(value, str) and type.startswith("_") else value
        for value, type in zip(parameters, query.parameters, strict=True)
    ]


def _printed(
    cursor: duckdb.DuckDBPyConnection,
    columns: tuple[ResultColumn, ...],
    rows: list[tuple[Any, ...]],
) -> list[tuple[Any, ...]]:
    """Rows in which OIDs of types that print as names are those names."""
    kinds = [column.pg_type.removeprefix("_") for column in columns]
    found = {place: kind for place, kind in enumerate(kinds) if kind in REGISTERED}
    if not found or not rows:
        return rows
    sql = "SELECT n.kind_, n.oid_, fn.name_of(n.kind_, n.oid_) FROM the_names AS n WHERE n.kind_ IN (SELECT unnest(?))"
    wanted = sorted({kind.replace("procedure", "proc") for kind in found.values()})
    names = {(kind, oid): name for kind, oid, name in cursor.execute(sql, [wanted]).fetchall()}

    def text(kind: str, value: object) -> object:
        if isinstance(value, list):
            return [text(kind, each) for each in value]
        if not isinstance(value, int):
            return value
        return names.get((kind.replace("procedure", "proc"), value), str(value) if value else "-")

    return [
        tuple(
            text(found[place], value) if place in found else value
            for place, value in enumerate(row)
        )
        for row in rows
    ]


def _settings(query: Rewritten, values: list[object]) -> tuple[tuple[str, str], ...]:
    def value(node: exp.Expression) -> str | None:
        node = node.unnest()
        if isinstance(node, exp.Cast):
            return value(node.this)
        if isinstance(node, exp.Parameter):
            return str(values[int(node.name) - 1])
        return str(node.name) if isinstance(node, exp.Literal) else None

    found = ((value(name), value(to)) for name, to in query.settings)
    return tuple((name, to) for name, to in found if name is not None and to is not None)


@cache
def _telling() -> frozenset[str]:
    """The words without which a text is not about the system."""
    names = {name for _, name in relations()} | set(macros()) | set(SCHEMAS) | set(REGISTERED)
    return frozenset(names)


def may_be_about_the_system(words: Collection[str]) -> bool:
    """Whether a query with these words (in lower case) can be about the system: its text need not be parsed otherwise."""
    return not _telling().isdisjoint(words)


def is_about_the_system(query: str | exp.Expression) -> bool:
    """Whether a query reads system relations and nothing else, or nothing but functions of the system."""
    if isinstance(query, str):
        try:
            query = parse(query)
        except SystemQueryError:
            return False
    ctes = {cte.alias for cte in query.find_all(exp.CTE)}
    asked = False
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Func) or (not table.db and table.name in ctes):
            continue
        if relation_of(table) is None and table.db not in SCHEMAS:
            return False
        asked = True
    return asked or any(map(_of_the_system, query.walk()))


def _of_the_system(node: exp.Expression) -> bool:
    if isinstance(node, exp.Cast):
        return (named(type_name(node.to)) or "").removeprefix("_") in REGISTERED
    if isinstance(node, exp.Column):
        return not node.table and not node.this.quoted and node.name in ("user", "current_role")
    return isinstance(node, exp.Func) and function_name(node) in _system_functions()


@cache
def _system_functions() -> frozenset[str]:
    """Functions that ask about the system or the session, not about their arguments."""
    plain = (
        "array",
        "generate",
        "octet",
        "quote",
        "cardinality",
        "_pg",
        "clock",
        "statement",
        "transaction",
    )
    return frozenset(name for name in macros() if not name.startswith(plain))
