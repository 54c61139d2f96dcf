"""A view as stages: tables that are each kept up to date by one rule.

Most views are one stage, their own table. An aggregate below something else, a source whose past is needed, or a top-N
below a join is a stage of its own, stored in a table of the engine's; what stands above reads it like any other table.

A stage is of one of these kinds (`plan.split` says where each is used):
- `Rows`: its plan is differentiated (see `plan.maintain`); nothing beside the rows is stored.
- `Groups`: one row a group, with what the aggregates keep (see `plan.accumulate`).
- `Best`: the first rows of each partition of an input that only grows; they are all that is needed to know the next ones.
- `Partitions`: whole partitions of a window that may come out otherwise when it is computed again.
- `Closed`: rows of another stage, once they are final.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from icestream import types as t
from icestream.functions.equality import as_stored
from icestream.functions.expressions import (
    Cast,
    ColumnRef,
    Expr,
    Literal,
    columns_used,
)
from icestream.plan.accumulate import Kept, Part, merged, only, stale
from icestream.plan.calls import call, choose, converted, null, whole
from icestream.plan.keys import Key, key_of
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
from icestream.plan.maintain import (
    STILL,
    WEIGHT,
    Rules,
    State,
    Times,
    face,
    keys_of,
    same,
    together,
    weighed,
    weighted,
)
from icestream.plan.normal import MADE
from icestream.plan.rewrite import kept, refs, substitute, transform
from icestream.plan.watermarks import WATERMARK, Closing, relations_waited

HIDDEN = f"{MADE}state_"
"""Begins the names of columns that a table has beside those of its query."""


@dataclass(frozen=True)
class Known:
    """What is known of a relation that a view reads."""

    key: Key | None = None
    grows: bool = True
    """Whether rows are only ever added."""
    stored: bool = True
    """Whether its content can be read, not only what is new."""
    foreign: bool = False
    """Whether all of it can be looked up although it is not ours: a table of others."""


Facts = Mapping[str, Known]


@dataclass(frozen=True)
class Stage:
    """One table of a view. `plan` says what it holds; `shown` are its columns, the hidden ones last."""

    relation: str
    plan: Node
    facts: Facts = field(hash=False, repr=False)
    trim: Closing | None = field(default=None, kw_only=True)
    """Rows that are final, and have been shown, are deleted; whoever reads the table takes no notice of that."""
    trimmed: Mapping[str, Stage] = field(default_factory=dict, hash=False, repr=False, kw_only=True)
    """The stages it reads that delete what is final."""

    @property
    def columns(self) -> tuple[OutColumn, ...]:
        """The columns of its table."""
        return self.plan.columns

    @property
    def key(self) -> Key | None:
        """Columns that tell its rows apart; None: it may hold rows that are alike."""
        return key_of(self.plan, {r: k.key for r, k in self.facts.items() if k.key is not None})

    @property
    def grows(self) -> bool:
        """Whether rows are only ever added to it."""
        return grows(self.plan, self.facts)

    @property
    def appends(self) -> bool:
        """Whether its table is only appended to."""
        return self.grows and self.trim is None

    @property
    def known(self) -> Known:
        """What a stage above may rely on."""
        return Known(self.key, self.grows)

    @property
    def identity(self) -> Key | None:
        """The columns by which the rows of its table are found: the key; a table of one row has a column for it."""
        if not self.key:
            return None if self.key is None else (f"{HIDDEN}one",)
        names = {c.name for c in self.columns}
        texts = {k: f"{HIDDEN}text_{k}" for k in self.key}
        return tuple(texts[k] if texts[k] in names else k for k in self.key)

    @property
    def bag(self) -> Key:
        """The columns that, together, say whether two rows are alike: all, those without an order as texts."""
        return tuple(c.name for c in self.columns if is_plain(c.type))

    @property
    def netted(self) -> bool:
        """Whether `changes` names every key at most once: to be replaced (weight 1) or deleted (-1)."""
        return False

    @property
    def reads(self) -> tuple[str, ...]:
        """The relations that its changes come from, each once."""
        return relations_read(self.plan)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The relations whose watermarks hold for its rows: all but those that a temporal join looks rows up in."""
        return relations_waited(self.plan)

    def reads_of(self, relation: str) -> frozenset[str]:
        """The columns that it reads of a relation."""
        scans = [n for n in walk(self.plan) if isinstance(n, Scan) and n.relation == relation]
        return frozenset(c.name for n in scans for i in n.items for c in columns_used(i.expr))

    @property
    def fans_out(self) -> bool:
        """Whether one change of an input may become any number of changes here."""
        nodes = list(walk(self.plan))
        many = (Join, Unnest, Expand, WindowTable, Window)
        closes = isinstance(self, Closed) or self.trim is not None
        return self.moving or closes or any(isinstance(n, many) for n in nodes)

    @property
    def looked_up(self) -> tuple[str, ...]:
        """Tables of others that it looks rows up in, whatever has changed there."""
        return tuple(
            r
            for r in self.reads
            if self.facts[r].foreign and not self.facts[r].stored and r in _foreign(self.plan)
        )

    @property
    def moving(self) -> bool:
        """Whether its content changes as time passes, though nothing comes."""
        return any(moving_in(e) for n in walk(self.plan) for e in n.exprs)

    def only_adds(self, states: Mapping[str, State], *, first: bool) -> bool:
        """Whether all changes of an epoch are rows that come, each of them once."""
        return self.appends or states[self.relation].empty

    def changes(
        self, states: Mapping[str, State], *, first: bool = False, times: Times = STILL
    ) -> Node | None:
        """The plan of its changes in an epoch: its columns and the weight; None: there are none.

        `states` says what happened to the relations it reads, and (`empty`) whether its own table has rows. `first`:
        it has never been computed. `times` is for what depends on clocks.
        """
        found = self._changes(states, first, times)
        if times.shown is None:
            return found
        if found is not None and self.trimmed:
            found = self._unmoved(found, times.shown)
        if self.trim is None or states[self.relation].empty:
            return found
        items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in self.columns)
        own = Scan(face(self.relation, "old"), self.relation, items)
        over = Filter(own, is_final(self.trim, own, times.shown))
        terms = [weighed(over, -1), *([found] if found is not None else [])]
        return together(terms, weighted(self.columns))

    def _changes(self, states: Mapping[str, State], first: bool, times: Times) -> Node | None:
        """What changes because something else does."""
        raise NotImplementedError

    def _unmoved(self, node: Node, shown: int) -> Node:
        """A plan that does not see that stages below delete what is final."""
        node = node.with_inputs([self._unmoved(i, shown) for i in node.inputs])
        if not isinstance(node, Scan) or WEIGHT not in node.names:
            return node
        below = self.trimmed.get(node.relation.rpartition("@")[0])
        if below is None or below.trim is None:
            return node
        (time,) = [ColumnRef(c.type, c.name) for c in below.columns if c.name == below.trim.column]
        with_time = replace(node, items=(*node.items, Item(f"{MADE}time", time)))
        final = is_final(replace(below.trim, column=f"{MADE}time"), with_time, shown)
        came = call(">", ColumnRef(t.INTEGER, WEIGHT), whole(0, t.INTEGER))
        seen = call("or", came, call("is distinct from", final, Literal(t.BOOLEAN, True)))
        return Project(Filter(with_time, seen), kept(node))


@dataclass(frozen=True)
class Rows(Stage):
    """A plan of linear nodes, joins and windows."""

    def only_adds(self, states: Mapping[str, State], *, first: bool) -> bool:
        """See `Stage.only_adds`."""
        return self.appends or (first and all(states[r].empty for r in self.reads))

    def _changes(self, states: Mapping[str, State], first: bool, times: Times) -> Node | None:
        rules = Rules(states, first, times)
        if first and all(states[r].empty for r in self.reads):
            return weighed(rules.at(self.plan, "new"), 1)
        return rules.delta(self.plan)


@dataclass(frozen=True)
class Groups(Stage):
    """One row a group. `plan` is a projection of `core`, which also holds what the aggregates keep."""

    core: Aggregate
    aggregates: tuple[Kept, ...]
    count: str | None
    """The column that counts the rows of a group; None if they never go."""
    names: Mapping[str, str] = field(hash=False)
    """What the columns of `core` (the groups, and the parts) are called in the table."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that is kept, each once."""
        return tuple({p.name: p for k in self.aggregates for p in k.parts}.values())

    @property
    def netted(self) -> bool:
        """See `Stage.netted`."""
        return True

    @property
    def key(self) -> Key | None:
        """The group."""
        return tuple(self.names[g.name] for g in self.core.groups)

    @property
    def grows(self) -> bool:
        """Only without aggregates: a row that is there stays as it is."""
        return not self.parts and grows(self.core.input, self.facts)

    @property
    def reads(self) -> tuple[str, ...]:
        """See `Stage.reads`."""
        return relations_read(self.core.input)

    def _changes(self, states: Mapping[str, State], first: bool, times: Times) -> Node | None:
        rules = Rules(states, first, times)
        below = self.core.input
        if first and all(states[r].empty for r in self.reads):
            return self._from_scratch(rules.at(below, "new"))
        news = rules.delta(below)
        if news is None and first and not self.core.groups:
            news = Values((), weighted(below.columns))
        return None if news is None else self._merged(rules, news, states)

    def _from_scratch(self, below: Node) -> Node:
        """All groups of rows that are all there are."""
        items = tuple(Item(p.name, p.made) for p in self.parts)
        made = Aggregate(below, self.core.groups, items)
        return Project(made, (*self._shown(), Item(WEIGHT, Literal(t.INTEGER, 1))))

    def _merged(self, rules: Rules, news: Node, states: Mapping[str, State]) -> Node:
        """What came and went, merged with what is stored; the whole group again where that does not do."""
        shrinks = self.count is not None
        weight = ColumnRef(t.INTEGER, WEIGHT)
        zero = whole(0, t.INTEGER)
        came, went = call(">", weight, zero), call("<", weight, zero)
        parts: list[Item] = []
        for part in self.parts:
            if part.kind != "whole":
                made = only(part.made, came) if shrinks else part.made
                parts.append(Item(f"{part.name}@came", made))
                if shrinks:
                    parts.append(Item(f"{part.name}@went", only(part.made, went)))
        groups = self.core.groups
        delta = Aggregate(news, groups, tuple(parts))
        with_old = self._beside_old(delta, states)
        values = {p.name: self._merge(p, delta.names) for p in self.parts}
        tests = [s for p in self.parts if (s := self._stale(p, delta.names)) is not None]
        node: Node = with_old
        if tests:
            test = tests[0]
            for other in tests[1:]:
                test = call("or", test, other)
            always = any(p.kind == "whole" for p in self.parts)
            node, values = self._again(rules, node, None if always else test, values)
        return self._outcome(node, values)

    def _beside_old(self, delta: Aggregate, states: Mapping[str, State]) -> Node:
        """The groups of a delta with what is stored of them, as far as it is."""
        own = [(g.name, g.expr.type) for g in self.core.groups]
        own += [(p.name, p.type) for p in self.parts]
        items = tuple(Item(f"{n}@old", ColumnRef(x, self.names[n])) for n, x in own)
        there = Item("@there", Literal(t.BOOLEAN, True))
        columns = (*(i.column for i in items), there.column)
        stored: Node
        if states[self.relation].empty:
            return Join("left", delta, Values((), columns), None)
        on = tuple(self.names[g.name] for g in self.core.groups)
        relation = face(self.relation, "old")
        keys = keys_of(delta, [g.name for g in self.core.groups])
        if keys is not None:
            stored = Lookup(keys, relation, self.relation, items, on)
        else:
            stored = Scan(relation, self.relation, items)
        beside = Project(stored, (*kept(stored), there))
        old = [ColumnRef(g.expr.type, f"{g.name}@old") for g in self.core.groups]
        return Join("left", delta, beside, same([g.ref for g in self.core.groups], old))

    def _merge(self, part: Part, names: Sequence[str]) -> Expr:
        old = ColumnRef(part.type, f"{part.name}@old")
        if part.kind == "whole":
            return old
        came = ColumnRef(part.type, f"{part.name}@came")
        gone = f"{part.name}@went"
        return merged(part, old, came, ColumnRef(part.type, gone) if gone in names else None)

    def _stale(self, part: Part, names: Sequence[str]) -> Expr | None:
        old = ColumnRef(part.type, f"{part.name}@old")
        came = ColumnRef(part.type, f"{part.name}@came")
        gone = f"{part.name}@went"
        return stale(part, old, came, ColumnRef(part.type, gone) if gone in names else None)

    def _again(
        self, rules: Rules, node: Node, test: Expr | None, values: dict[str, Expr]
    ) -> tuple[Node, dict[str, Expr]]:
        """Groups that are read again, beside the others. `test` None: all of them are."""
        groups = self.core.groups
        chosen = node if test is None else Filter(node, test)
        keys = keys_of(chosen, [g.name for g in groups])
        names = [g.expr.name for g in groups if isinstance(g.expr, ColumnRef)]
        below = rules.within(self.core.input, "new", names, keys)
        again = Aggregate(
            below,
            tuple(Item(f"{g.name}@again", g.expr) for g in groups),
            tuple(Item(f"{p.name}@again", p.made) for p in self.parts),
        )
        beside = [ColumnRef(g.expr.type, f"{g.name}@again") for g in groups]
        joined = Join("left", node, again, same([g.ref for g in groups], beside))
        fresh: dict[str, Expr] = {}
        for part in self.parts:
            found: Expr = ColumnRef(part.type, f"{part.name}@again")
            if part.kind == "count":
                found = call("coalesce", found, whole(0))
            fresh[part.name] = found if test is None else choose(test, found, values[part.name])
        return joined, fresh

    def _outcome(self, node: Node, values: Mapping[str, Expr]) -> Node:
        """The rows to replace and to delete: only those that are not as they were."""
        groups = [Item(g.name, g.ref) for g in self.core.groups]
        old = [ColumnRef(p.type, f"{p.name}@old") for p in self.parts]
        there = ColumnRef(t.BOOLEAN, "@there")
        news = [Item(p.name, converted(values[p.name], p.type)) for p in self.parts]
        passed = [Item(r.name, r) for r in (*old, there)]
        worked = Project(node, (*groups, *news, *passed))
        emptied = self._emptied()
        if emptied:
            settled = [Item(i.name, emptied.get(i.name, i.ref)) for i in news]
            worked = Project(worked, (*groups, *settled, *passed))
        changed: Expr = call("is null", there)
        for item, before in zip(news, old, strict=True):
            changed = call(
                "or", changed, call("is distinct from", as_stored(item.ref), as_stored(before))
            )
        weight: Expr = whole(1, t.INTEGER)
        if self.count is not None and self.core.groups:
            exists = call(">", ColumnRef(t.BIGINT, self.count), whole(0))
            changed = choose(exists, changed, call("is not null", there))
            weight = choose(exists, whole(1, t.INTEGER), whole(-1, t.INTEGER))
        return Project(Filter(worked, changed), (*self._shown(), Item(WEIGHT, weight)))

    def _emptied(self) -> dict[str, Expr]:
        """Sums of no values are NULL."""
        found: dict[str, Expr] = {}
        for kept_ in self.aggregates:
            if kept_.counted_by is not None and kept_.parts[0].kind == "sum":
                part = kept_.parts[0]
                number = ColumnRef(t.BIGINT, kept_.counted_by)
                value = ColumnRef(part.type, part.name)
                found[part.name] = choose(call(">", number, whole(0)), value, null(part.type))
        return found

    def _shown(self) -> tuple[Item, ...]:
        """The table's columns over the groups and parts."""
        results = {k.name: k.result for k in self.aggregates}
        by_name = {stored: core for core, stored in self.names.items()}
        types = {g.name: g.expr.type for g in self.core.groups} | {
            p.name: p.type for p in self.parts
        }
        assert isinstance(self.plan, Project)
        shown: list[Item] = []
        for item in self.plan.items:
            core = by_name.get(item.name)
            if core is not None:
                shown.append(Item(item.name, ColumnRef(types[core], core)))
            else:
                shown.append(Item(item.name, substitute(item.expr, results)))
        return tuple(shown)


@dataclass(frozen=True)
class Closed(Stage):
    """EMIT ON WINDOW CLOSE: the rows of another stage that have become final, each once. `plan` reads that stage."""

    closing: Closing

    @property
    def grows(self) -> bool:
        """What is final stays."""
        return True

    def _changes(self, states: Mapping[str, State], first: bool, times: Times) -> Node | None:
        if times.mark is None or times.mark == times.mark_before:
            return None
        rules = Rules(states, first, times)
        test = is_final(self.closing, self.plan, times.mark)
        if times.mark_before is not None:
            already = is_final(self.closing, self.plan, times.mark_before)
            test = call("and", test, call("not", already))
        return weighed(Filter(rules.at(self.plan, "new"), test), 1)


def is_final(closing: Closing, node: Node, mark: int) -> Expr:
    """Whether a row is final once the watermark is there (microseconds since 1970)."""
    (column,) = [r for r in refs(node) if r.name == closing.column]
    bound = transform(
        closing.bound,
        lambda e: moment(mark, e.type) if e == ColumnRef(e.type, WATERMARK) else None,
    )
    return call("<=" if closing.inclusive else "<", column, bound)


def moment(micros: int, type: t.Type) -> Expr:
    """A time as a constant."""
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
    text = at.strftime("%Y-%m-%d %H:%M:%S.%f") + ("+00:00" if type == t.TIMESTAMPTZ else "")
    return Cast(type, Literal(t.VARCHAR, text[:10] if type == t.DATE else text))


@dataclass(frozen=True)
class Best(Stage):
    """The first rows of each partition. `plan` is a projection of `core`, a filter on the rank over a window."""

    core: Filter
    names: Mapping[str, str] = field(hash=False)
    """What the columns of the window's input are called in the table."""

    @property
    def window(self) -> Window:
        """The window that ranks the rows."""
        assert isinstance(self.core.input, Window)
        return self.core.input

    @property
    def grows(self) -> bool:
        """A better row takes the place of another."""
        return False

    def _changes(self, states: Mapping[str, State], first: bool, times: Times) -> Node | None:
        rules = Rules(states, first, times)
        below = self.window.input
        news = rules.delta(below)
        if news is None:
            return None
        candidates: Node = Project(news, kept(below))
        terms: list[Node] = []
        if not states[self.relation].empty:
            names = [e.name for e in self.window.partition_by if isinstance(e, ColumnRef)]
            own = tuple(Item(c.name, ColumnRef(c.type, self.names[c.name])) for c in below.columns)
            before = self._stored(news, names, own)
            branches = (before, candidates)
            candidates = SetOperation("union", True, branches, below.columns)
            everything = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in self.columns)
            stored = self._stored(news, names, everything)
            terms.append(weighed(stored, -1))
        ranked = replace(self.core, input=replace(self.window, input=candidates))
        assert isinstance(self.plan, Project)
        terms.insert(0, weighed(Project(ranked, self.plan.items), 1))
        return together(terms, weighted(self.columns))

    def _stored(self, news: Node, names: Sequence[str], items: tuple[Item, ...]) -> Node:
        relation = face(self.relation, "old")
        keys = keys_of(news, names)
        if keys is None:
            return Scan(relation, self.relation, items)
        on = tuple(self.names[n] for n in names)
        return Lookup(keys, relation, self.relation, items, on)


@dataclass(frozen=True)
class Partitions(Stage):
    """A window whose calls may give something else for the same rows, such as sums of floats. What goes is what is
    stored of a partition, what comes the partition computed again. `plan` is a projection of `core`."""

    core: Window
    names: Mapping[str, str] = field(hash=False)
    """What the columns of the partition are called in the table."""

    @property
    def grows(self) -> bool:
        """A row changes the values of others."""
        return False

    def _changes(self, states: Mapping[str, State], first: bool, times: Times) -> Node | None:
        rules = Rules(states, first, times)
        news = rules.delta(self.core.input)
        if news is None:
            return None
        names = [e.name for e in self.core.partition_by if isinstance(e, ColumnRef)]
        keys = keys_of(news, names)
        again: Node = replace(self.core, input=rules.within(self.core.input, "new", names, keys))
        if keys is not None:  # more than asked for may have been read
            again = _exactly(again, keys, names)
        assert isinstance(self.plan, Project)
        terms = [weighed(Project(again, self.plan.items), 1)]
        if not states[self.relation].empty:
            relation = face(self.relation, "old")
            own = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in self.columns)
            before: Node = Scan(relation, self.relation, own)
            if keys is not None:
                on = tuple(self.names[n] for n in names)
                before = _exactly(Lookup(keys, relation, self.relation, own, on), keys, on)
            terms.append(weighed(before, -1))
        return together(terms, weighted(self.columns))


def _exactly(found: Node, keys: Node, on: Sequence[str]) -> Node:
    """Rows that were looked up, without those that were not asked for."""
    columns = {r.name: r for r in refs(found)}
    return Join("semi", found, keys, same([columns[n] for n in on], refs(keys)))


def _foreign(node: Node) -> set[str]:
    """The relations on the right of temporal joins."""
    joins = [n for n in walk(node) if isinstance(n, Join) and n.temporal]
    return {r for n in joins for r in relations_read(n.right)}


def grows(node: Node, facts: Facts) -> bool:
    """Whether a plan in normal form only ever gains rows as long as the relations do that it reads."""
    match node:
        case Scan(relation=relation):
            return facts[relation].grows
        case Window():
            return False
        case Filter() if moving_in(node.condition):
            return False
        case Aggregate():
            return not node.aggregates and bool(node.groups) and grows(node.input, facts)
        case Join(temporal=True):
            return grows(node.left, facts)
        case Join(kind="left" | "anti" | "semi"):
            return False  # a semi join only gains rows, but its rule also takes back what it gives again
    return all(grows(i, facts) for i in node.inputs)


def is_plain(type: t.Type) -> bool:
    """Whether values can be found by the key index."""
    return not isinstance(type, t.ArrayType | t.StructType | t.MapType) and type != t.INTERVAL
