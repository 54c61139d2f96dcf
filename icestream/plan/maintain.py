"""The delta rules: how much a relation changes when those it reads do.

A plan in normal form (see `plan.normal`) is differentiated node by node. The result is a plan again, over three
faces of each stored relation R: `R@old` and `R@new`, its content before and after the epoch, and `R@delta`, the rows that
came (weight +1) and went (weight -1). All content is read through `Lookup`s that ask for the keys of a delta only, as
far as those can be pushed down. A look-up may return more than was asked for: the joins above drop the rest.

Each rule returns a `Derivation`; `plan.derivation` lists the rules with their formulas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal as Choice

from icestream import types as t
from icestream.functions.equality import has_variants
from icestream.functions.expressions import Call, Cast, ColumnRef, Expr, Literal
from icestream.plan.calls import both, call, whole
from icestream.plan.derivation import (
    BILINEAR,
    BY_KEY,
    BY_ROW,
    CLOCK,
    CONSTANT,
    DELTA,
    LINEAR,
    RECOMPUTED,
    TEMPORAL,
    Derivation,
    face,
)
from icestream.plan.linear import moving_in, relations_read
from icestream.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Item,
    Join,
    Lookup,
    Node,
    OutColumn,
    Project,
    Scan,
    SetOperation,
    Unnest,
    Values,
    Window,
    WindowTable,
    walk,
)
from icestream.plan.normal import MADE
from icestream.plan.rewrite import conjuncts, kept, refs, transform
from icestream.plan.watermarks import Closing, is_final

WEIGHT = "_icestream_weight"
"""The column of a delta that says whether a row comes (1) or goes (-1)."""

When = Choice["old", "new"]

_NEW_AND_OLD: tuple[tuple[When, int], ...] = (("new", 1), ("old", -1))

TIME = f"{MADE}time"
"""The column by which deletes of final rows are recognized in the delta of a trimmed table."""


@dataclass(frozen=True)
class Times:
    """What the clocks of an epoch say, in microseconds since 1970; None where nothing was said yet."""

    before: int | None = None
    """What now() was when the stage was last computed. What it is now, the text of the plan gets later."""
    mark_before: int | None = None
    mark: int | None = None
    """The watermark of the stage's inputs, before and with this epoch."""
    shown: int | None = None
    """Of a view that shows what is final: the watermark up to which it has done so."""


STILL = Times()


@dataclass(frozen=True)
class State:
    """What an epoch does to a relation that a plan reads."""

    changed: bool
    empty: bool = False
    """Whether it had no rows before the epoch: its delta is then its content."""


def weighted(columns: Sequence[OutColumn]) -> tuple[OutColumn, ...]:
    """The columns of a delta."""
    return (*columns, OutColumn(WEIGHT, t.INTEGER))


class Rules:
    """The rules for one epoch.

    `first`: the plan has given nothing yet, so its constant rows come now. `trims`: the tables that delete final rows,
    with the column of the time. `whole`: the relations that cannot be looked up by keys.
    """

    def __init__(
        self,
        states: Mapping[str, State],
        first: bool = False,
        times: Times = STILL,
        trims: Mapping[str, tuple[ColumnRef, Closing]] | None = None,
        whole: Collection[str] = (),
    ) -> None:
        self.states = states
        self.first = first
        self.times = times
        self.trims = trims or {}
        self.whole = whole

    # -- what changes -------------------------------------------------------------------------------

    def derive(self, node: Node) -> Derivation:
        """The changes of a plan's rows. They are not netted: a row that comes and goes in the epoch may be there twice."""
        match node:
            case Scan():
                return self._delta(node)
            case Values():
                return Derivation(CONSTANT, node, weighed(node, 1) if self.first else None)
            case Filter() if moving_in(node.condition):
                return self._clock(node)
            case Filter() | Project() | Unnest() | WindowTable() | Expand():
                below = self.derive(node.inputs[0])
                return Derivation(LINEAR, node, _over(node, below.plan), (below,))
            case SetOperation(kind="union", all=True):
                branches = tuple(self.derive(b) for b in node.branches)
                found = [b.plan for b in branches if b.plan is not None]
                return Derivation(LINEAR, node, together(found, weighted(node.outputs)), branches)
            case Join(temporal=True):
                return self._temporal(node)
            case Join(kind="inner"):
                return self._bilinear(node)
            case Join():
                return self._by_row(node)
            case Window():
                return self._by_key(node)
        raise AssertionError(f"{type(node).__name__} is not in normal form")

    def _delta(self, node: Scan) -> Derivation:
        if not self.states[node.relation].changed:
            return Derivation(DELTA, node, None)
        changes = Scan(face(node.relation, "delta"), node.name, (*node.items, _weight()))
        if self.times.shown is None or node.relation not in self.trims:
            return Derivation(DELTA, node, changes, content=(changes,))
        time, trim = self.trims[node.relation]
        with_time = replace(changes, items=(*changes.items, Item(TIME, time)))
        final = is_final(replace(trim, column=TIME), with_time, self.times.shown)
        came = call(">", ColumnRef(t.INTEGER, WEIGHT), whole(0, t.INTEGER))
        seen = call("or", came, call("is distinct from", final, Literal(t.BOOLEAN, True)))
        plan = Project(Filter(with_time, seen), kept(changes))
        return Derivation(DELTA, node, plan, content=(plan,), detail="without trim deletes")

    def _clock(self, node: Filter) -> Derivation:
        below = self.derive(node.input)
        terms: list[Node] = [] if below.plan is None else [Filter(below.plan, node.condition)]
        content: tuple[Node, ...] = ()
        if self.times.before is not None:
            there = self.at(node.input, "old")
            content = (there,)
            moving = [x for x in conjuncts(node.condition) if moving_in(x)]
            still = [x for x in conjuncts(node.condition) if not moving_in(x)]
            now, then = both(moving), both(at_moment(x, self.times.before) for x in moving)
            assert now is not None
            assert then is not None
            for holds, no_longer, weight in ((now, then, 1), (then, now, -1)):
                turned = both([*still, holds, _is_not(no_longer, moving)])
                assert turned is not None
                terms.append(weighed(Filter(there, turned), weight))
        return Derivation(CLOCK, node, _sum(terms, node), (below,), content)

    def _temporal(self, node: Join) -> Derivation:
        left = self.derive(node.left)
        if left.plan is None:
            return Derivation(TEMPORAL, node, None, (left,))
        right = self._partners(node, left.plan, "new")
        return Derivation(TEMPORAL, node, _joined(node, left.plan, right), (left,), (right,))

    def _bilinear(self, node: Join) -> Derivation:
        left, right = self.derive(node.left), self.derive(node.right)
        terms: list[Node] = []
        content: list[Node] = []
        if left.plan is not None:
            theirs = self._partners(node, left.plan, "old")
            content.append(theirs)
            terms.append(_joined(node, left.plan, theirs))
        if right.plan is not None:
            pairs = equal_columns(node)
            keys = keys_of(right.plan, [r for _, r in pairs])
            mine = self.within(node.left, "new", [n for n, _ in pairs], keys)
            content.append(mine)
            terms.append(_last(Join("inner", mine, right.plan, node.condition), node))
        return Derivation(BILINEAR, node, _sum(terms, node), (left, right), tuple(content))

    def _partners(self, node: Join, left: Node, when: When) -> Node:
        """What the right side holds for changes of the left one."""
        pairs = equal_columns(node)
        keys = keys_of(left, [n for n, _ in pairs])
        return self.within(node.right, when, [n for _, n in pairs], keys)

    def _by_row(self, node: Join) -> Derivation:
        left, right = self.derive(node.left), self.derive(node.right)
        terms: list[Node] = []
        content: list[Node] = []
        if left.plan is not None:
            theirs = self._partners(node, left.plan, "old")
            content.append(theirs)
            terms.append(_joined(node, left.plan, theirs))
        if right.plan is not None:
            pairs = equal_columns(node)
            keys = keys_of(right.plan, [r for _, r in pairs])
            mine = self.within(node.left, "new", [n for n, _ in pairs], keys)
            content.append(mine)
            touched = Join("semi", mine, right.plan, node.condition)
            for when, weight in _NEW_AND_OLD:
                theirs = self.within(node.right, when, [n for _, n in pairs], keys)
                content.append(theirs)
                terms.append(weighed(Join(node.kind, touched, theirs, node.condition), weight))
        return Derivation(BY_ROW, node, _sum(terms, node), (left, right), tuple(content))

    def _by_key(self, node: Window) -> Derivation:
        names = [e.name for e in node.partition_by if isinstance(e, ColumnRef)]
        changes = self.derive(node.input)
        keyed = any(isinstance(n, Lookup) for n in walk(keyed_content(node.input, names)))
        rule, inputs = (BY_KEY, (changes,)) if keyed else (RECOMPUTED, ())
        if changes.plan is None:
            return Derivation(rule, node, None, inputs)
        keys = keys_of(changes.plan, names)
        terms: list[Node] = []
        content: list[Node] = []
        for when, weight in _NEW_AND_OLD:
            below = self.within(node.input, when, names, keys)
            content.append(below)
            terms.append(weighed(replace(node, input=below), weight))
        return Derivation(rule, node, _sum(terms, node), inputs, tuple(content))

    # -- what is there --------------------------------------------------------------------------------

    def at(self, node: Node, when: When) -> Node:
        """All rows of a plan before or after the epoch."""
        return self.within(node, when, (), None)

    def within(self, node: Node, when: When, on: Sequence[str], keys: Node | None) -> Node:
        """The rows whose columns `on` equal a row of `keys`, and perhaps others: then all of the same `on`."""
        if not on:
            keys = None
        match node:
            case Scan():
                return self._scan(node, when, on, keys)
            case Values():
                return node
            case Project(input=below, items=items):
                on, keys = _kept_keys(on, keys, {i.name: _column(i.expr) for i in items})
                return replace(node, input=self.within(below, when, on, keys))
            case SetOperation(kind="union", all=True):
                branches = []
                for branch in node.branches:
                    here = dict(zip(node.names, branch.names, strict=True))
                    branches.append(self.within(branch, when, [here[n] for n in on], keys))
                return replace(node, branches=tuple(branches))
            case Join():
                return self._join(node, when, on, keys)
            case Filter(input=below) if when == "old" and moving_in(node.condition):
                before = self.times.before
                rest = self.within(below, when, on, keys)
                if before is None:
                    return Values((), node.columns)
                return Filter(rest, at_moment(node.condition, before))
            case Window(input=below):
                parts = {e.name: e.name for e in node.partition_by if isinstance(e, ColumnRef)}
                on, keys = _kept_keys(on, keys, parts)
                return replace(node, input=self.within(below, when, on, keys))
            case Aggregate(input=below):
                on, keys = _kept_keys(on, keys, {i.name: _column(i.expr) for i in node.groups})
                return replace(node, input=self.within(below, when, on, keys))
        (below,) = node.inputs
        on, keys = _kept_keys(on, keys, {n: n for n in below.names})
        return node.with_inputs([self.within(below, when, on, keys)])

    def _scan(self, node: Scan, when: When, on: Sequence[str], keys: Node | None) -> Node:
        state = self.states[node.relation]
        if state.empty and (when == "old" or not state.changed):
            return Values((), node.columns)
        if state.empty:  # all there is has come now
            return replace(node, relation=face(node.relation, "delta"))
        which = face(node.relation, when if state.changed else "new")
        if keys is None or node.relation in self.whole:
            return replace(node, relation=which)
        stored = {i.name: _column(i.expr) for i in node.items}
        columns = [stored[n] for n in on]
        assert all(columns), f"{node.name} computes {on}"
        return Lookup(keys, which, node.name, node.items, tuple(c for c in columns if c))

    def _join(self, node: Join, when: When, on: Sequence[str], keys: Node | None) -> Node:
        pairs = equal_columns(node)
        if keys is None:
            return node.with_inputs([self.within(i, when, (), None) for i in node.inputs])
        lefts, rights = set(node.left.names), set(node.right.names)
        same = {r: n for n, r in pairs}  # a column of the right that equals one of the left
        equal = same if node.kind == "inner" else {}
        as_left = [n if n in lefts else equal.get(n) for n in on]
        if any(as_left):
            mine, part = _chosen(as_left, keys)
            left = self.within(node.left, when, mine, part)
            further = keys_of(left, [n for n, _ in pairs])
            right = self.within(node.right, when, [r for _, r in pairs], further)
            return node.with_inputs([left, right])
        if node.kind == "inner" and any(n in rights for n in on):
            theirs, part = _chosen([n if n in rights else None for n in on], keys)
            right = self.within(node.right, when, theirs, part)
            further = keys_of(right, [r for _, r in pairs])
            left = self.within(node.left, when, [n for n, _ in pairs], further)
            return node.with_inputs([left, right])
        return node.with_inputs([self.within(i, when, (), None) for i in node.inputs])


def keyed_content(node: Node, names: Sequence[str]) -> Node:
    """How the rows of a plan are read by keys of those columns, whatever has changed: by look-ups where keys get that far."""
    states = {r: State(True) for r in relations_read(node)}
    keys = Values((), tuple(OutColumn(f"{MADE}k{i}", t.INTEGER) for i in range(len(names))))
    return Rules(states).within(node, "new", names, keys)


def _is_not(expr: Expr, moving: Sequence[Expr]) -> Expr:
    """Not true, which is false or NULL. NOT says the same of a comparison that is NULL at no moment or at all of them;
    it is preferred because data files can be left out by it."""
    if len(moving) == 1 and isinstance(moving[0], Call):
        test = moving[0]
        compares = test.function.name in ("<", "<=", ">", ">=")
        if compares and not any(_may_turn_null(a) for a in test.args):
            return call("not", expr)
    return call("is distinct from", expr, Literal(t.BOOLEAN, True))


def _may_turn_null(expr: Expr) -> bool:
    """Whether an expression may be NULL at one moment and not at another, for the same row."""
    if not moving_in(expr):
        return False
    match expr:
        case Call(function=function, args=()):
            return function.name not in ("now", "current_date", "localtimestamp")
        case Call(function=function, args=args) if function.name in ("+", "-"):
            return any(_may_turn_null(a) for a in args)
        case Cast(arg=arg) if expr.type in _TIMES and arg.type in _TIMES:
            return _may_turn_null(arg)
    return True


_TIMES = (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)


def at_moment(expr: Expr, micros: int) -> Expr:
    """An expression as it was at another time: now() is then."""

    def step(e: Expr) -> Expr | None:
        if not (isinstance(e, Call) and moving_in(replace(e, args=()))):
            return None
        template = e.function.spark
        assert isinstance(template, str), f"{e.function.name} has no moment"
        then = template.replace("{now}", f"TIMESTAMP_MICROS({micros})")
        return replace(e, function=replace(e.function, spark=then, pure=True))

    return transform(expr, step)


# -- keys -----------------------------------------------------------------------------------------------


def keys_of(node: Node, names: Sequence[str]) -> Node | None:
    """The values of some columns, under names that meet no others."""
    if not names:
        return None
    types = {c.name: c.type for c in node.columns}
    items = [Item(f"_icestream_k{i}", ColumnRef(types[n], n)) for i, n in enumerate(names)]
    return Project(node, tuple(items))


def _kept_keys(
    on: Sequence[str], keys: Node | None, names: Mapping[str, str | None]
) -> tuple[Sequence[str], Node | None]:
    """The part of a restriction that the node below can apply, with the names that the columns have there."""
    if keys is None:
        return (), None
    return _chosen([names.get(n) for n in on], keys)


def _chosen(columns: Sequence[str | None], keys: Node) -> tuple[list[str], Node | None]:
    """The columns that there are, and the keys of just those."""
    found = [(c, k) for c, k in zip(columns, refs(keys), strict=True) if c is not None]
    if not found:
        return [], None
    if len(found) == len(columns):
        return [c for c, _ in found], keys
    items = tuple(Item(f"_icestream_k{i}", k) for i, (_, k) in enumerate(found))
    return [c for c, _ in found], Project(keys, items)


def equal_columns(node: Join) -> list[tuple[str, str]]:
    """Columns of the left and the right side that the join's condition makes equal."""
    lefts, rights = set(node.left.names), set(node.right.names)
    found: list[tuple[str, str]] = []
    for test in conjuncts(node.condition):
        if not (isinstance(test, Call) and test.function.name in ("=", "is not distinct from")):
            continue
        if any(has_variants(a.type) for a in test.args):
            continue  # equal values need not be stored alike: a look-up would miss some
        one, other = (_column(a) for a in test.args)
        if one in lefts and other in rights:
            found.append((str(one), str(other)))
        elif other in lefts and one in rights:
            found.append((str(other), str(one)))
    return found


_WHOLE = (t.SMALLINT, t.INTEGER, t.BIGINT)


def _column(expr: Expr) -> str | None:
    """The column that an expression is; a wider whole number is the same number."""
    if isinstance(expr, Cast) and expr.type in _WHOLE and expr.arg.type in _WHOLE:
        wider = _WHOLE.index(expr.type) >= _WHOLE.index(expr.arg.type)
        return _column(expr.arg) if wider else None
    return expr.name if isinstance(expr, ColumnRef) else None


# -- deltas ---------------------------------------------------------------------------------------------


def _weight() -> Item:
    return Item(WEIGHT, ColumnRef(t.INTEGER, WEIGHT))


def weighed(node: Node, weight: int) -> Node:
    """Rows that all come, or all go."""
    return Project(node, (*kept(node), Item(WEIGHT, Literal(t.INTEGER, weight))))


def _over(node: Node, changes: Node | None) -> Node | None:
    """A node of one input, over changes of that."""
    if changes is None:
        return None
    if isinstance(node, Project):
        return Project(changes, (*node.items, _weight()))
    return _last(node.with_inputs([changes]), node)


def _joined(node: Join, left: Node, right: Node) -> Node:
    """A join of changes of the left side with content of the right one."""
    return _last(Join(node.kind, left, right, node.condition), node)


def _sum(terms: Sequence[Node], node: Node) -> Node | None:
    """The changes of a node: the terms that may give rows."""
    return together([x for x in terms if not _is_empty(x)], weighted(node.columns))


def _last(node: Node, like: Node) -> Node:
    """The columns of another node, then the weight."""
    if node.names == (*like.names, WEIGHT):
        return node
    return Project(node, (*kept(like), _weight()))


def together(terms: Sequence[Node], outputs: tuple[OutColumn, ...]) -> Node | None:
    """All terms in one; None if there are none."""
    if not terms:
        return None
    if len(terms) == 1:
        (term,) = terms
        if term.names == tuple(c.name for c in outputs):
            return term
        named = zip(outputs, refs(term), strict=True)
        return Project(term, tuple(Item(c.name, r) for c, r in named))
    return SetOperation("union", True, tuple(terms), outputs)


def _is_empty(node: Node) -> bool:
    """Whether a plan surely gives no rows."""
    match node:
        case Values(rows=()):
            return True
        case Join(kind="inner" | "semi"):
            return any(_is_empty(i) for i in node.inputs)
        case Join(kind="left" | "anti"):
            return _is_empty(node.left)
        case SetOperation(branches=branches):
            return all(_is_empty(b) for b in branches)
        case Aggregate(groups=()) | Scan() | Lookup():
            return False
    return bool(node.inputs) and all(_is_empty(i) for i in node.inputs)


# -- groups ---------------------------------------------------------------------------------------------


def same(left: Iterable[ColumnRef], right: Iterable[ColumnRef]) -> Expr | None:
    """Row by row equal, NULL to NULL."""
    return both(call("is not distinct from", a, b) for a, b in zip(left, right, strict=True))
