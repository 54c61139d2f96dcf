"""A stage of groups: one row a group with what its aggregates keep, merged with the changes of each epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from icestream import types as t
from icestream.functions.equality import as_stored
from icestream.functions.expressions import ColumnRef, Expr, Literal
from icestream.plan.accumulate import Kept, Part, merged, only, stale
from icestream.plan.calls import call, choose, converted, null, whole
from icestream.plan.derivation import INITIAL, MERGED_GROUPS, Derivation, face
from icestream.plan.keys import Key
from icestream.plan.linear import relations_read
from icestream.plan.logical import (
    Aggregate,
    Filter,
    Item,
    Join,
    Lookup,
    Node,
    OutColumn,
    Project,
    Scan,
    Values,
)
from icestream.plan.maintain import WEIGHT, Rules, State, keys_of, same, weighted
from icestream.plan.rewrite import kept, substitute
from icestream.plan.stages import Stage, grows
from icestream.types import quote


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

    def _derive(self, rules: Rules) -> Derivation:
        below = self.core.input
        if rules.first and all(rules.states[r].empty for r in self.reads):
            rows = rules.at(below, "new")
            return Derivation(INITIAL, self.core, self._from_scratch(rows), content=(rows,))
        news = rules.derive(below)
        changes = news.plan
        if changes is None and rules.first and not self.core.groups:
            changes = Values((), weighted(below.columns))
        if changes is None:
            return Derivation(MERGED_GROUPS, self.core, None, (news,))
        plan, content, detail = self._merged(rules, changes)
        return Derivation(MERGED_GROUPS, self.core, plan, (news,), content, detail)

    def _from_scratch(self, below: Node) -> Node:
        """All groups of rows that are all there are."""
        items = tuple(Item(p.name, p.made) for p in self.parts)
        made = Aggregate(below, self.core.groups, items)
        return Project(made, (*self._shown(), Item(WEIGHT, Literal(t.INTEGER, 1))))

    def _merged(self, rules: Rules, news: Node) -> tuple[Node, tuple[Node, ...], str]:
        """What came and went, merged with what is stored; the whole group again where that does not tell the value.

        Returns the plan, what it reads, and what happens to the parts.
        """
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
        delta = Aggregate(news, self.core.groups, tuple(parts))
        stored = self._stored(delta, rules.states)
        content = () if stored is None else (stored,)
        node = self._beside(delta, stored)
        values = {p.name: self._merge(p, delta.names) for p in self.parts}
        tests = {p.name: s for p in self.parts if (s := self._stale(p, delta.names)) is not None}
        always = tuple(p.name for p in self.parts if p.kind == "whole")
        if tests:
            test = reduce(lambda a, b: call("or", a, b), tests.values())
            node, values, rows = self._again(rules, node, None if always else test, values)
            content = (*content, rows)
        return self._outcome(node, values), content, self._detail(always, tuple(tests))

    def _detail(self, always: Sequence[str], stale: Sequence[str]) -> str:
        """What happens to the parts. `always`: those that are only known by reading the group, `stale`: sometimes."""
        if not self.parts:
            return "stored groups stay as they are"
        if always:
            return f"groups that change are read again for {', '.join(map(quote, always))}"
        merges = f"merges {', '.join(quote(p.name) for p in self.parts)}"
        if not stale:
            return merges
        return f"{merges}; a group is read again if {' or '.join(map(quote, stale))} may lose its value"

    def _own(self) -> list[tuple[str, t.Type]]:
        """The groups and parts, with their types."""
        groups = [(g.name, g.expr.type) for g in self.core.groups]
        return [*groups, *((p.name, p.type) for p in self.parts)]

    def _stored(self, delta: Aggregate, states: Mapping[str, State]) -> Node | None:
        """What is stored of the groups of a delta; None: the table is empty."""
        if states[self.relation].empty:
            return None
        items = tuple(Item(f"{n}@old", ColumnRef(x, self.names[n])) for n, x in self._own())
        relation = face(self.relation, "old")
        keys = keys_of(delta, [g.name for g in self.core.groups])
        if keys is None:
            return Scan(relation, self.relation, items)
        on = tuple(self.names[g.name] for g in self.core.groups)
        return Lookup(keys, relation, self.relation, items, on)

    def _beside(self, delta: Aggregate, stored: Node | None) -> Node:
        """The groups of a delta with what is stored of them."""
        there = Item("@there", Literal(t.BOOLEAN, True))
        if stored is None:
            columns = (*(OutColumn(f"{n}@old", x) for n, x in self._own()), there.column)
            return Join("left", delta, Values((), columns), None)
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
    ) -> tuple[Node, dict[str, Expr], Node]:
        """Groups that are read again, beside the others, and the rows that are read. `test` None: all groups are."""
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
        return joined, fresh, below

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
