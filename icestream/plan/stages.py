"""A view as stages: tables that are each kept up to date by one rule.

Most views are one stage, their own table. An aggregate below something else, a source whose past is needed, or a top-N
below a join is a stage of its own, stored in a table of the engine's; what stands above reads it like any other table.

A stage is of one of these kinds (`plan.split` says where each is used):
- `Rows`: its plan is differentiated (see `plan.maintain`); nothing beside the rows is stored.
- `Groups` (`plan.group_stage`): one row a group, with what the aggregates keep (see `plan.accumulate`).
- `Best`: the first rows of each partition of an input that only grows; they are all that is needed to know the next ones.
- `Partitions`: whole partitions of a window that may come out otherwise when it is computed again.
- `Closed`: rows of another stage, once they are final.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from icestream import types as t
from icestream.functions.expressions import ColumnRef, columns_used
from icestream.plan.calls import call
from icestream.plan.derivation import (
    INITIAL,
    STORED_PARTITIONS,
    TOP_N,
    TRIM,
    WINDOW_CLOSE,
    Derivation,
    face,
)
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
    Window,
    WindowTable,
    walk,
)
from icestream.plan.maintain import (
    STILL,
    Rules,
    State,
    Times,
    keys_of,
    same,
    together,
    weighed,
    weighted,
)
from icestream.plan.normal import MADE
from icestream.plan.rewrite import kept, refs
from icestream.plan.watermarks import Closing, is_final, relations_waited

EVERYTHING_MOVES = Times(before=0, mark_before=0, mark=1, shown=0)
"""The clocks of an epoch in which rows begin and cease to pass, become final and are deleted."""

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
    """When its rows are final. Those that have been shown are deleted; such trim deletes are excluded from downstream deltas."""
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
        """Whether `derive_changes` names every key at most once: to be replaced (weight 1) or deleted (-1)."""
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

    def derive_changes(
        self, states: Mapping[str, State], *, first: bool = False, times: Times = STILL
    ) -> Derivation:
        """The changes of its table in an epoch: its columns and the weight.

        `states` says what happened to the relations it reads, and (`empty`) whether its own table has rows. `first`:
        it has never been computed. `times` is for what depends on clocks.
        """
        trims = {r: (_time(s, s.trim), s.trim) for r, s in self.trimmed.items() if s.trim}
        derived = self._derive(Rules(states, first, times, trims, self.looked_up))
        if self.trim is None or times.shown is None or states[self.relation].empty:
            return derived
        items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in self.columns)
        own = Scan(face(self.relation, "old"), self.relation, items)
        over = weighed(Filter(own, is_final(self.trim, own, times.shown)), -1)
        terms = [over] if derived.plan is None else [over, derived.plan]
        plan = together(terms, weighted(self.columns))
        detail = f"rows are deleted once {self.trim}"
        return Derivation(TRIM, own, plan, (derived,), (own,), detail)

    def derive_example(self) -> Derivation:
        """What EXPLAIN shows: an epoch in which all inputs and all clocks move and no table is empty."""
        states = {r: State(r not in self.looked_up) for r in self.reads}
        states[self.relation] = State(changed=True)
        return self.derive_changes(states, times=EVERYTHING_MOVES)

    def _derive(self, rules: Rules) -> Derivation:
        """What changes because an input or a clock does."""
        raise NotImplementedError


def _time(stage: Stage, trim: Closing) -> ColumnRef:
    """The column by which a stage deletes final rows."""
    (column,) = [c for c in stage.columns if c.name == trim.column]
    return ColumnRef(column.type, column.name)


@dataclass(frozen=True)
class Rows(Stage):
    """A plan of linear nodes, joins and windows."""

    def only_adds(self, states: Mapping[str, State], *, first: bool) -> bool:
        """See `Stage.only_adds`."""
        return self.appends or (first and all(states[r].empty for r in self.reads))

    def _derive(self, rules: Rules) -> Derivation:
        if rules.first and all(rules.states[r].empty for r in self.reads):
            everything = rules.at(self.plan, "new")
            return Derivation(INITIAL, self.plan, weighed(everything, 1), content=(everything,))
        return rules.derive(self.plan)


@dataclass(frozen=True)
class Closed(Stage):
    """EMIT ON WINDOW CLOSE: the rows of another stage that have become final, each once. `plan` reads that stage."""

    closing: Closing

    @property
    def grows(self) -> bool:
        """What is final stays."""
        return True

    def _derive(self, rules: Rules) -> Derivation:
        times, detail = rules.times, f"rows appear once {self.closing}"
        if times.mark is None or times.mark == times.mark_before:
            return Derivation(WINDOW_CLOSE, self.plan, None, detail=detail)
        test = is_final(self.closing, self.plan, times.mark)
        if times.mark_before is not None:
            already = is_final(self.closing, self.plan, times.mark_before)
            test = call("and", test, call("not", already))
        rows = rules.at(self.plan, "new")
        plan = weighed(Filter(rows, test), 1)
        return Derivation(WINDOW_CLOSE, self.plan, plan, content=(rows,), detail=detail)


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

    def _derive(self, rules: Rules) -> Derivation:
        below = self.window.input
        news = rules.derive(below)
        if news.plan is None:
            return Derivation(TOP_N, self.core, None, (news,))
        candidates: Node = Project(news.plan, kept(below))
        terms: list[Node] = []
        content: tuple[Node, ...] = ()
        if not rules.states[self.relation].empty:
            names = [e.name for e in self.window.partition_by if isinstance(e, ColumnRef)]
            own = tuple(Item(c.name, ColumnRef(c.type, self.names[c.name])) for c in below.columns)
            before = self._stored(news.plan, names, own)
            branches = (before, candidates)
            candidates = SetOperation("union", True, branches, below.columns)
            everything = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in self.columns)
            stored = self._stored(news.plan, names, everything)
            terms.append(weighed(stored, -1))
            content = (before, stored)
        ranked = replace(self.core, input=replace(self.window, input=candidates))
        assert isinstance(self.plan, Project)
        terms.insert(0, weighed(Project(ranked, self.plan.items), 1))
        plan = together(terms, weighted(self.columns))
        return Derivation(TOP_N, self.core, plan, (news,), content)

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

    def _derive(self, rules: Rules) -> Derivation:
        names = [e.name for e in self.core.partition_by if isinstance(e, ColumnRef)]
        news = rules.derive(self.core.input)
        inputs = (news,) if names else ()
        if news.plan is None:
            return Derivation(STORED_PARTITIONS, self.core, None, inputs)
        keys = keys_of(news.plan, names)
        below = rules.within(self.core.input, "new", names, keys)
        content: list[Node] = [below]
        again: Node = replace(self.core, input=below)
        if keys is not None:  # more than asked for may have been read
            again = _exactly(again, keys, names)
        assert isinstance(self.plan, Project)
        terms = [weighed(Project(again, self.plan.items), 1)]
        if not rules.states[self.relation].empty:
            relation = face(self.relation, "old")
            own = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in self.columns)
            before: Node = Scan(relation, self.relation, own)
            if keys is not None:
                on = tuple(self.names[n] for n in names)
                before = Lookup(keys, relation, self.relation, own, on)
            content.append(before)
            terms.append(weighed(before if keys is None else _exactly(before, keys, on), -1))
        plan = together(terms, weighted(self.columns))
        return Derivation(STORED_PARTITIONS, self.core, plan, inputs, tuple(content))


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
