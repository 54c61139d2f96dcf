"""A plan as one Spark SQL text: the batch query that the plan means.

Each relation reads what `inputs` names for it: a table, a table at a snapshot, or a delta. Nodes that fit into one
SELECT share it; all others become subqueries. Columns keep the names they have in the plan, which are unique wherever
they meet, so no column needs a qualifier. The text assumes the engine's session (see `functions.spark`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from icestream import functions
from icestream import types as t
from icestream.functions import fragments
from icestream.functions.equality import key_text
from icestream.functions.expression_errors import Failures
from icestream.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    Literal,
    Row,
    Sort,
    columns_used,
    walk,
)
from icestream.functions.floats import has_float, unify_operand
from icestream.plan import calls
from icestream.plan.complexity import bounded_depth
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Expand,
    Filter,
    Item,
    Join,
    Limit,
    Lookup,
    Node,
    Order,
    Project,
    Scan,
    SetOperation,
    Unnest,
    Values,
    Window,
    WindowTable,
)
from icestream.plan.rewrite import refs, substitute, transform
from icestream.plan.table_functions import micros
from icestream.types import backtick, spark_type, stored_spark_type

_JOINS = {
    "inner": "INNER JOIN",
    "left": "LEFT OUTER JOIN",
    "right": "RIGHT OUTER JOIN",
    "full": "FULL OUTER JOIN",
    "cross": "CROSS JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
_PLAIN = ("array",)  # functions that VALUES takes
CANCEL_CHECK = "icestream_running"
"""A function of the Spark session: (anything) → TRUE. It ends a task that was cancelled."""
_NOTHING = "TRUE AS `_one`"  # what a SELECT of no columns selects


def _unify_float_operands(expr: Expr) -> Expr | None:
    """x = y over floats with equal bits for equal values.

    Spark runs NOT IN (`x = y OR (x = y) IS NULL`) as a hash join, and compares bits there.
    """
    if not (isinstance(expr, Call) and expr.function.name == "="):
        return None
    if not any(has_float(a.type) for a in expr.args):
        return None
    return replace(expr, args=tuple(unify_operand(a) for a in expr.args))


def _is_plain(row: Iterable[Expr]) -> bool:
    """Whether all values of a row are constants."""
    return all(
        isinstance(e, Literal | Row) or (isinstance(e, Call) and e.function.name in _PLAIN)
        for value in row
        for e in walk(value)
    )


def render(
    node: Node,
    inputs: Mapping[str, str],
    now: str | None = None,
    failures: Failures | None = None,
    *,
    cancellable: bool = False,
) -> str:
    """The Spark SQL of a plan. `inputs` has a table expression for every relation that it reads. `failures` says what
    happens where PostgreSQL raises an error. `cancellable`: joins end when their task is cancelled."""
    with bounded_depth():
        return _Renderer(inputs, now, failures, cancellable).visit(node).text()


@dataclass(frozen=True)
class _Out:
    """A column of a SELECT: its name, its text, and the input column it is, if it is just that."""

    name: str
    text: str
    ref: ColumnRef | None = None

    def __str__(self) -> str:
        quoted = backtick(self.name)
        return self.text if self.text == quoted else f"{self.text} AS {quoted}"


@dataclass(frozen=True)
class _Block:
    """A SELECT in the making. A `closed` one takes no further clause: what follows reads it as a subquery."""

    outs: tuple[_Out, ...]
    source: str
    where: tuple[str, ...] = ()
    tail: str = ""
    distinct: bool = False
    closed: bool = False

    def text(self) -> str:
        columns = ", ".join(map(str, self.outs)) or _NOTHING
        parts = [f"SELECT {'DISTINCT ' if self.distinct else ''}{columns}"]
        parts += [f"FROM {self.source}"] if self.source else []
        parts += ["WHERE " + " AND ".join(self.where)] if self.where else []
        parts += [self.tail] if self.tail else []
        return " ".join(parts)


class _Renderer:
    def __init__(
        self,
        inputs: Mapping[str, str],
        now: str | None,
        failures: Failures | None,
        cancellable: bool,
    ) -> None:
        self._inputs = inputs
        self._now = now
        self._failures = failures
        self._cancellable = cancellable
        self._aliases = 0

    def visit(self, node: Node) -> _Block:
        match node:
            case Scan():
                return self.scan(node)
            case Values():
                return self.values(node)
            case Lookup():
                return self.lookup(node)
            case Filter():
                block = self.open(node.input, node.exprs)
                return replace(block, where=(*block.where, self.under(block, node.condition)))
            case Project():
                block = self.open(node.input, node.exprs)
                return replace(block, outs=self.outs(block, node.items))
            case Aggregate():
                return self.aggregate(node)
            case Distinct():
                return replace(self.open(node.input, ()), distinct=True, closed=True)
            case Window():
                return self.beside(self.open(node.input, node.exprs), node.calls)
            case Order():
                return self.ordered(node)
            case Limit():
                return self.limited(node)
            case DistinctOn():
                return self.distinct_on(node)
            case Join():
                return self.join(node)
            case SetOperation():
                return self.set_operation(node)
            case Unnest():
                return self.unnest(node)
            case WindowTable():
                return self.window_table(node)
            case Expand():
                return self.expand(node)
        raise AssertionError(f"no Spark text for {type(node).__name__}")

    # -- expressions ------------------------------------------------------------------------------

    def expr(self, expr: Expr) -> str:
        return functions.render(expr, now=self._now, failures=self._failures)

    def under(self, block: _Block, expr: Expr) -> str:
        """An expression over a block's columns, inside the block's own SELECT."""
        return self.expr(substitute(expr, {o.name: o.ref for o in block.outs if o.ref}))

    def outs(self, block: _Block, items: Iterable[Item]) -> tuple[_Out, ...]:
        sources = {o.name: o.ref for o in block.outs if o.ref}
        made = []
        for item in items:
            inner = substitute(item.expr, sources)
            made.append(
                _Out(item.name, self.expr(inner), inner if isinstance(inner, ColumnRef) else None)
            )
        return tuple(made)

    def sort(self, sort: Sort) -> str:
        text = key_text(self.expr(sort.expr), sort.expr.type)
        nulls = "FIRST" if sort.nulls_first else "LAST"
        return f"{text} {'DESC' if sort.descending else 'ASC'} NULLS {nulls}"

    # -- blocks -----------------------------------------------------------------------------------

    def open(self, node: Node, exprs: Sequence[Expr]) -> _Block:
        """The node as a SELECT that more can be added to, whose columns in `exprs` are plain ones."""
        block = self.visit(node)
        plain = {o.name for o in block.outs if o.ref}
        used = {c.name for e in exprs for c in columns_used(e)}
        if not block.closed and used <= plain:
            return block
        return self.passed(node, f"({block.text()}) AS {self.alias()}")

    def passed(self, node: Node, source: str) -> _Block:
        """All columns of a node as they come from a source."""
        outs = tuple(_Out(r.name, backtick(r.name), r) for r in refs(node))
        return _Block(outs, source)

    def subquery(self, node: Node) -> str:
        return f"({self.visit(node).text()}) AS {self.alias()}"

    def alias(self) -> str:
        self._aliases += 1
        return backtick(f"q{self._aliases}")

    def beside(self, block: _Block, items: Iterable[Item]) -> _Block:
        added = self.outs(block, items)
        return replace(block, outs=(*block.outs, *added), closed=True)

    # -- nodes ------------------------------------------------------------------------------------

    def scan(self, node: Scan) -> _Block:
        outs = []
        for item in node.items:
            stored = item.expr
            if spark_type(stored.type) != stored_spark_type(stored.type):
                text = f"CAST({self.expr(stored)} AS {spark_type(stored.type)})"
                outs.append(_Out(item.name, text))
            else:
                ref = stored if isinstance(stored, ColumnRef) else None
                outs.append(_Out(item.name, self.expr(stored), ref))
        return _Block(tuple(outs), self._inputs[node.relation])

    def lookup(self, node: Lookup) -> _Block:
        """As a scan, wherever nothing better takes the place of the node before it comes here."""
        keys = refs(node.keys)
        test = " AND ".join(
            f"{backtick(c)} <=> {backtick(k.name)}" for c, k in zip(node.on, keys, strict=True)
        )
        rows = f"{self._inputs[node.relation]} LEFT SEMI JOIN {self.subquery(node.keys)} ON {test}"
        block = self.scan(Scan(node.relation, node.name, node.items))
        return replace(block, source=rows)

    def values(self, node: Values) -> _Block:
        if not node.outputs:
            return _Block((), "")
        if not node.rows:
            none = (_Out(c.name, f"CAST(NULL AS {spark_type(c.type)})") for c in node.outputs)
            return _Block(tuple(none), "", where=("FALSE",), closed=True)
        selects: list[str] = []
        for plain, group in itertools.groupby(node.rows, _is_plain):
            rows = tuple(group)
            selects += [self.inline(node, rows)] if plain else [self.row(node, r) for r in rows]
        if len(selects) == 1 and selects[0].startswith("VALUES"):
            return self.passed(node, selects[0])
        return self.passed(node, f"({' UNION ALL '.join(selects)}) AS {self.alias()}")

    def inline(self, node: Values, rows: Iterable[Sequence[Expr]]) -> str:
        """Spark's own VALUES, which takes little more than constants."""
        texts = ", ".join("(" + ", ".join(map(self.expr, row)) + ")" for row in rows)
        names = ", ".join(backtick(c.name) for c in node.outputs)
        return f"VALUES {texts} AS {self.alias()} ({names})"

    def row(self, node: Values, row: Sequence[Expr]) -> str:
        """A SELECT that gives one row."""
        outs = (_Out(c.name, self.expr(e)) for c, e in zip(node.outputs, row, strict=True))
        return _Block(tuple(outs), "").text()

    def aggregate(self, node: Aggregate) -> _Block:
        if not node.columns:
            return _Block((), "")
        block = self.open(node.input, node.exprs)
        outs = self.outs(block, (*node.groups, *node.aggregates))
        # By position: an expression with a lambda in it is not equal to its own copy.
        positions = ", ".join(str(i + 1) for i in range(len(node.groups)))
        tail = f"GROUP BY {positions}" if positions else ""
        return replace(block, outs=outs, tail=tail, closed=True)

    def ordered(self, node: Order) -> _Block:
        block = self.passed(node, self.subquery(node.input))
        keys = ", ".join(self.sort(k) for k in node.keys)
        return replace(block, tail=f"ORDER BY {keys}", closed=True)

    def limited(self, node: Limit) -> _Block:
        if node.with_ties:
            return self.with_ties(node)
        if isinstance(node.input, Order):
            block = self.ordered(node.input)
        else:
            block = self.passed(node, self.subquery(node.input))
        parts = [block.tail] if block.tail else []
        parts += [f"LIMIT {node.count}"] if node.count is not None else []
        parts += [f"OFFSET {node.offset}"] if node.offset else []
        return replace(block, tail=" ".join(parts), closed=bool(parts))

    def with_ties(self, node: Limit) -> _Block:
        inner = node.input.inputs[0] if isinstance(node.input, Order) else node.input
        number = Item("_row", calls.numbered("row_number", (), node.order))
        rank = Item("_rank", calls.numbered("rank", (), node.order))
        numbered = self.beside(self.passed(inner, self.subquery(inner)), (number, rank))
        block = self.passed(node, f"({numbered.text()}) AS {self.alias()}")
        last = node.offset + (node.count or 0)
        keys = ", ".join(self.sort(k) for k in node.order)
        where = (f"`_row` > {node.offset}", f"`_rank` <= {last}")
        return replace(block, where=where, tail=f"ORDER BY {keys}", closed=True)

    def distinct_on(self, node: DistinctOn) -> _Block:
        first = Item("_row", calls.numbered("row_number", node.keys, node.order))
        numbered = self.beside(self.passed(node, self.subquery(node.input)), (first,))
        block = self.passed(node, f"({numbered.text()}) AS {self.alias()}")
        return replace(block, where=("`_row` = 1",))

    def join(self, node: Join) -> _Block:
        left, right = self.subquery(node.left), self.subquery(node.right)
        check = self.cancel_check(node)
        if node.kind == "cross" and check:
            return self.passed(node, f"{left} INNER JOIN {right} ON {check}")
        source = f"{left} {_JOINS[node.kind]} {right}"
        if node.kind != "cross":
            condition = node.condition or Literal(t.BOOLEAN, True)
            if node.kind == "anti":
                condition = transform(condition, _unify_float_operands)
            source = f"{source} ON {self.expr(condition)}" + (f" AND {check}" if check else "")
        return self.passed(node, source)

    def cancel_check(self, node: Join) -> str:
        """A condition that always holds. It reads both sides, so that it is evaluated for every pair of rows."""
        sides = [
            [backtick(c.name) for c in side.columns if not isinstance(c.type, t.MapType)]
            for side in node.inputs
        ]
        if not self._cancellable or node.kind == "anti" or not all(sides):
            return ""
        return f"{CANCEL_CHECK}(xxhash64({sides[0][0]}, {sides[1][0]}) = 0)"

    def set_operation(self, node: SetOperation) -> _Block:
        word = node.kind.upper() + (" ALL" if node.all else "")
        texts = f" {word} ".join(f"({self.visit(b).text()})" for b in node.branches)
        first = node.branches[0].columns
        outs = tuple(
            _Out(c.name, backtick(f.name), ColumnRef(c.type, f.name))
            for c, f in zip(node.columns, first, strict=True)
        )
        return _Block(outs, f"({texts}) AS {self.alias()}")

    # -- one row becomes several ------------------------------------------------------------------

    def unnest(self, node: Unnest) -> _Block:
        inner = self.open(node.input, node.exprs)
        arrays = [f"_rows{i + 1}" for i in range(len(node.calls))]
        outs = []
        for name, call in zip(arrays, node.calls, strict=True):
            kind = f"ARRAY<{spark_type(call.expr.type)}>"
            text = self.under(inner, call.expr)
            outs.append(_Out(name, f"coalesce({text}, CAST(array() AS {kind}))"))
        prepared = replace(inner, outs=(*inner.outs, *outs))
        zipped = (
            f"arrays_zip({', '.join(map(backtick, arrays))})" if len(arrays) > 1 else "`_rows1`"
        )
        alias, outer = self.alias(), "OUTER " if node.outer else ""
        view = f"LATERAL VIEW {outer}posexplode({zipped}) {self.alias()} AS `_place`, `_item`"
        block = self.passed(node.input, f"({prepared.text()}) AS {alias} {view}")
        one = len(arrays) == 1
        added = [
            _Out(c.name, "`_item`" if one else f"`_item`.{backtick(a)}", None)
            for c, a in zip(node.calls, arrays, strict=True)
        ]
        if node.ordinality:
            added.append(_Out(node.ordinality, "CAST(`_place` + 1 AS BIGINT)"))
        return replace(block, outs=(*block.outs, *added))

    def window_table(self, node: WindowTable) -> _Block:
        size, slide, offset = micros(node.size), micros(node.slide), micros(node.offset)
        inner = self.open(node.input, node.exprs)
        time = fragments.micros(self.under(inner, node.time))
        place = (
            f"{time} - pmod({time} - {offset}L, {slide}L)"
            if offset
            else f"{time} - pmod({time}, {slide}L)"
        )
        prepared = replace(inner, outs=(*inner.outs, _Out("_start", place)))
        source = f"({prepared.text()}) AS {self.alias()}"
        start = "`_start`"
        if node.kind == "hop":
            starts = f"sequence(`_start` - {size - slide}L, `_start`, {slide}L)"
            source += f" LATERAL VIEW explode({starts}) {self.alias()} AS `_each`"
            start = "`_each`"
        kind = spark_type(node.bound_type)
        bounds = (
            _Out(node.start, f"CAST(timestamp_micros({start}) AS {kind})"),
            _Out(node.end, f"CAST(timestamp_micros({start} + {size}L) AS {kind})"),
        )
        block = self.passed(node.input, source)
        return replace(block, outs=(*block.outs, *bounds))

    def expand(self, node: Expand) -> _Block:
        numbers = ", ".join(str(i) for i in range(len(node.sets)))
        inner = self.subquery(node.input)
        view = f"LATERAL VIEW explode(array({numbers})) {self.alias()} AS `_set`"
        block = self.passed(node.input, f"{inner} {view}")
        keys = []
        for key in node.keys:
            sets = ", ".join(str(i) for i, names in enumerate(node.sets) if key.name in names)
            kind, value = spark_type(key.expr.type), self.expr(key.expr)
            shown = f"IF(`_set` IN ({sets}), {value}, NULL)" if sets else f"CAST(NULL AS {kind})"
            keys.append(_Out(key.name, shown))
        return replace(block, outs=(*block.outs, *keys, _Out(node.number, "`_set`")))
