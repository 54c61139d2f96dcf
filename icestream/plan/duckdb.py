"""A plan as one DuckDB SQL text, if its rows are surely those that Spark would give; see `functions.duckdb`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from icestream import types as t
from icestream.functions.duckdb import (
    Expressions,
    NotTranslatableError,
    cast,
    duck_type,
    hide_statistics,
    keyed,
    quoted,
)
from icestream.functions.expressions import Call, Expr, Sort, columns_used
from icestream.plan import calls
from icestream.plan.complexity import bounded_depth
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Item,
    Join,
    Limit,
    Node,
    Order,
    Project,
    Scan,
    SetOperation,
    Values,
    Window,
    walk,
)

_JOINS = {
    "inner": "INNER JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN",
    "cross": "CROSS JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN",
}  # fmt: skip
_NOTHING = "TRUE AS _one"


OURS = re.compile(r"_row|_one|_g\d+|_in\d+")
"""Names that the text uses itself."""
MANY = 200
"""Written rows beyond which DuckDB takes longer to read them than Spark."""


def render(
    node: Node,
    inputs: Mapping[str, str],
    now: int,
    refuse: Callable[[str], None] = lambda reason: None,
) -> str | None:
    """The DuckDB SQL of a plan whose columns are of exactly the types that it names; None if Spark has to answer.

    `inputs` has a table expression for every relation that it reads, `now` is the time in microseconds. `refuse` gets the
    reason why Spark has to answer.
    """
    if any(OURS.fullmatch(name.casefold()) for n in walk(node) for name in n.names):
        refuse("a name that the text uses itself")
        return None
    try:
        for column in node.columns:
            duck_type(column.type)
        with bounded_depth():
            return _Renderer(inputs, now).top(node)
    except NotTranslatableError as error:
        refuse(str(error))
        return None


def multiplies(node: Node) -> bool:
    """Whether a join in the plan compares every row with every other."""
    return any(isinstance(n, Join) and not _has_equality(n) for n in walk(node))


def _has_equality(join: Join) -> bool:
    left, right = set(join.left.names), set(join.right.names)

    def parts(expr: Expr | None) -> Iterable[Expr]:
        if isinstance(expr, Call) and expr.function.name == "and":
            for arg in expr.args:
                yield from parts(arg)
        elif expr is not None:
            yield expr

    def between(part: Expr) -> bool:
        if not isinstance(part, Call) or part.function.name not in ("=", "is not distinct from"):
            return False
        sides = [{c.name for c in columns_used(a)} for a in part.args]
        return all(sides) and any(a <= left and b <= right for a, b in (sides, sides[::-1]))

    return any(map(between, parts(join.condition)))


class _Renderer:
    def __init__(self, inputs: Mapping[str, str], now: int) -> None:
        self._inputs = inputs
        self._exprs = Expressions(now)
        self._aliases = 0

    def top(self, node: Node) -> str:
        """The last projection may repeat a name."""
        if not isinstance(node, Project):
            return self.visit(node)
        items = [Item(f"c{i}", item.expr) for i, item in enumerate(node.items)]
        return self.select(self.outs(items), self.sub(node.input))

    def visit(self, node: Node) -> str:
        _tell_apart(node.names)
        match node:
            case Scan():
                return self.scan(node)
            case Values():
                return self.values(node)
            case Filter():
                where = f"WHERE {self.expr(node.condition)}"
                return self.select(self.names(node), self.sub(node.input), where)
            case Project():
                return self.select(self.outs(node.items), self.sub(node.input))
            case Aggregate():
                return self.aggregate(node)
            case Distinct():
                _keys(node)
                return f"SELECT DISTINCT {', '.join(self.names(node))} FROM {self.sub(node.input)}"
            case Window():
                outs = [*self.names(node.input), *self.outs(node.calls)]
                return self.select(outs, self.sub(node.input))
            case Order():
                return self.select(self.names(node), self.sub(node.input), self.order(node.keys))
            case Limit(with_ties=False):
                return self.limited(node)
            case DistinctOn():
                number = Item("_row", calls.numbered("row_number", node.keys, node.order))
                outs = [*self.names(node), *self.outs((number,))]
                numbered = f"({self.select(outs, self.sub(node.input))})"
                return self.select(self.names(node), numbered, "WHERE _row = 1")
            case Join():
                return self.join(node)
            case SetOperation():
                return self.set_operation(node)
        raise NotTranslatableError(type(node).__name__)

    # -- parts ------------------------------------------------------------------------------------

    def sub(self, node: Node) -> str:
        self._aliases += 1
        return f"({self.visit(node)}) AS q{self._aliases}"

    def expr(self, expr: Expr) -> str:
        return self._exprs.visit(expr)

    def outs(self, items: Iterable[Item]) -> list[str]:
        return [f"{self.expr(i.expr)} AS {quoted(i.name)}" for i in items]

    def names(self, node: Node) -> list[str]:
        return [quoted(n) for n in node.names]

    def select(self, outs: Sequence[str], source: str, tail: str = "") -> str:
        return f"SELECT {', '.join(outs) or _NOTHING} FROM {source} {tail}".rstrip()

    def order(self, keys: Sequence[Sort]) -> str:
        return "ORDER BY " + ", ".join(map(self._exprs.sort, keys)) if keys else ""

    # -- nodes ------------------------------------------------------------------------------------

    def scan(self, node: Scan) -> str:
        """The columns of a type that DuckDB has; whoever asks for another one fails."""
        outs = []
        for item in node.items:
            try:
                kind = duck_type(item.expr.type)
            except NotTranslatableError:
                continue
            text = self.expr(item.expr)
            stored = f"CAST({text} AS {kind})" if item.expr.type == t.SMALLINT else text
            outs.append(f"{stored} AS {quoted(item.name)}")
        return self.select(outs, self._inputs[node.relation])

    def values(self, node: Values) -> str:
        rows = []
        for row in node.rows:
            pairs = zip(node.outputs, row, strict=True)
            outs = [f"{cast(self.expr(e), c.type)} AS {quoted(c.name)}" for c, e in pairs]
            rows.append(f"SELECT {', '.join(outs) or _NOTHING}")
        if not rows or len(rows) > MANY:
            raise NotTranslatableError("no rows, or many")
        return " UNION ALL ".join(rows)

    def aggregate(self, node: Aggregate) -> str:
        if not node.columns:
            raise NotTranslatableError("no columns")
        for item in node.groups:
            keyed(item.expr.type)
        inner = self.sub(node.input)
        if not node.groups:
            return self.select(self.outs(node.aggregates), inner)
        # The groups in a SELECT of their own: a constant among them is no position.
        self._aliases += 1
        groups = [f"{self.expr(i.expr)} AS _g{n}" for n, i in enumerate(node.groups)]
        source = f"(SELECT *, {', '.join(groups)} FROM {inner}) AS q{self._aliases}"
        keys = [f"_g{n}" for n in range(len(node.groups))]
        shown = [f"{k} AS {quoted(i.name)}" for k, i in zip(keys, node.groups, strict=True)]
        return self.select(
            [*shown, *self.outs(node.aggregates)], source, f"GROUP BY {', '.join(keys)}"
        )

    def limited(self, node: Limit) -> str:
        inner = node.input.input if isinstance(node.input, Order) else node.input
        parts = [self.order(node.order)]
        parts += [f"LIMIT {node.count}"] if node.count is not None else []
        parts += [f"OFFSET {node.offset}"] if node.offset else []
        return self.select(self.names(node), self.sub(inner), " ".join(p for p in parts if p))

    def join(self, node: Join) -> str:
        _tell_apart((*node.left.names, *node.right.names))
        right = self.sub(node.right)
        if node.kind == "anti" and node.right.names and not _has_equality(node):
            self._aliases += 1
            hidden = self.select(list(map(hide_statistics, self.names(node.right))), right)
            right = f"({hidden}) AS q{self._aliases}"
        source = f"{self.sub(node.left)} {_JOINS[node.kind]} {right}"
        if node.kind != "cross":
            source += f" ON {self.expr(node.condition) if node.condition else 'TRUE'}"
        return self.select(self.names(node), source)

    def set_operation(self, node: SetOperation) -> str:
        if not (node.kind == "union" and node.all):
            _keys(node)
        word = node.kind.upper() + (" ALL" if node.all else "")
        texts = f" {word} ".join(f"({self.visit(b)})" for b in node.branches)
        self._aliases += 1
        names = ", ".join(self.names(node))
        return f"SELECT {names} FROM ({texts}) AS q{self._aliases}({names})"


def _keys(node: Node) -> None:
    if not node.columns:
        raise NotTranslatableError("no columns")
    for column in node.columns:
        keyed(column.type)


def _tell_apart(names: Sequence[str]) -> None:
    """DuckDB does not tell names apart by case, even if they are quoted."""
    if len({n.casefold() for n in names}) < len(names):
        raise NotTranslatableError("names that differ in case")
