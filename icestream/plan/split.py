"""A view's plan cut into stages: where a table is needed, and what it has to hold.

An aggregate below something else, a source whose past is needed, a top-N below a join, or an input of a join whose delta
would become too large is a stage of its own; nodes that differ in nothing but names share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from icestream import types as t
from icestream.functions.expressions import Call, Cast, ColumnRef, Expr, Literal, WindowCall
from icestream.plan.accumulate import Kept, Part, kept_of
from icestream.plan.calls import count, whole
from icestream.plan.cut import (
    FIRST_LAYOUT,
    LAYOUT,
    MAX_DELTA,
    SMALL,
    best_size,
    cut_joins,
    groups_size,
    scan_of,
    size_of,
)
from icestream.plan.group_stage import Groups
from icestream.plan.keys import Key
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
from icestream.plan.maintain import equal_columns, keyed_content
from icestream.plan.normal import MADE, has_total_order, is_settled, normal
from icestream.plan.rewrite import canonical, conjuncts, kept
from icestream.plan.stages import (
    HIDDEN,
    Best,
    Closed,
    Facts,
    Known,
    Partitions,
    Rows,
    Stage,
    grows,
    is_plain,
)
from icestream.plan.tidy import tidy
from icestream.plan.watermarks import Closing


def stages(node: Node, relation: str, facts: Facts, layout: int = LAYOUT) -> tuple[Stage, ...]:
    """The stages of a view in the order in which they are computed; the last one is the view's own table.

    `layout` says by which rules plans are cut: a view keeps those that it was made by, or it would not find its tables.
    """
    made: list[Stage] = []
    known = dict(facts)
    shared: dict[Node, Stage] = {}

    def store(input: Node) -> Node:
        shape = canonical(input)
        if layout == FIRST_LAYOUT or shape not in shared:
            below = stages(input, f"{relation}/part{len(made) + 1}", known, layout)
            made.extend(below)
            known.update({s.relation: s.known for s in below})
            shared[shape] = below[-1]
        return _scan_shown(shared[shape], input)

    rest = cut_joins(node, store, layout)
    return (*made, *_Splitter(relation, known, layout).split(normal(rest)))


def closed(
    node: Node, relation: str, facts: Facts, closing: Closing, layout: int = LAYOUT
) -> tuple[Stage, ...]:
    """The stages of a view that shows its rows once they are final."""
    below = stages(node, f"{relation}/0", facts, layout)
    known = {**facts, **{s.relation: s.known for s in below}}
    items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in node.columns)
    last = Closed(relation, Scan(below[-1].relation, relation, items), known, closing)
    return _trimmed((*below, last), closing)


def _scan_shown(stage: Stage, node: Node) -> Scan:
    """What gives the rows of a node out of the table of its stage."""
    shown = tuple(c.name for c in stage.columns if not c.name.startswith(HIDDEN))
    return scan_of(node, stage.relation, shown)


def _trimmed(stages: Sequence[Stage], closing: Closing) -> tuple[Stage, ...]:
    """The stages of a view that shows what is final, told to delete what can change nothing any more.

    A row is of no use once each row that it may still take part in is final: where the column that says so comes from
    one of its own, whoever reads it.
    """
    columns: dict[str, set[str | None]] = {stages[-1].relation: {closing.column}}
    trimmed: dict[str, Stage] = {}
    for stage in reversed(stages):
        found = columns.get(stage.relation, set())
        column = next(iter(found)) if len(found) == 1 else None
        if column is not None and stage is not stages[-1] and _can_trim(stage):
            trimmed[stage.relation] = replace(stage, trim=replace(closing, column=column))
        for relation, name in _traced(stage.plan, column):
            columns.setdefault(relation, set()).add(name)
    made = []
    for stage in stages:
        below = {r: trimmed[r] for r in stage.reads if r in trimmed}
        made.append(replace(trimmed.get(stage.relation, stage), trimmed=below))
    return tuple(made)


def _can_trim(stage: Stage) -> bool:
    """Whether rows can be found to be deleted. A table that would only be appended to has no texts of lists and structs."""
    return not stage.grows or (stage.key != () and all(is_plain(c.type) for c in stage.columns))


def _traced(node: Node, column: str | None) -> Iterator[tuple[str, str | None]]:
    """The relations that a plan reads, each with the column that a column of the plan comes from, if all rows with the same
    value of that one, and no others, decide on its rows."""
    if isinstance(node, Scan):
        yield node.relation, _source(node.items, column)
        return
    for below, name in zip(node.inputs, _passed(node, column), strict=True):
        yield from _traced(below, name)


def _passed(node: Node, column: str | None) -> list[str | None]:
    """The column of each input that a column of a node comes from."""
    match node:
        case Project(items=items):
            return [_source(items, column)]
        case Aggregate(groups=groups):
            return [_source(groups, column)]
        case Filter():
            return [column]
        case Window():
            parts = [e.name for e in node.partition_by if isinstance(e, ColumnRef)]
            return [column if column in parts else None]
        case SetOperation(branches=branches) if column is not None:
            at = node.names.index(column)
            return [branch.names[at] for branch in branches]
        case Join():
            equal = equal_columns(node)
            lefts = {r: n for n, r in equal} if node.kind == "inner" else {}
            rights = dict(equal)
            left = column if column in node.left.names else lefts.get(column or "")
            right = column if column in node.right.names else rights.get(column or "")
            return [left, None if node.temporal else right]
    return [None for _ in node.inputs]


def _source(items: Sequence[Item], column: str | None) -> str | None:
    """The column that an item is."""
    exprs = [i.expr for i in items if i.name == column]
    return exprs[0].name if exprs and isinstance(exprs[0], ColumnRef) else None


class _Splitter:
    def __init__(self, relation: str, facts: dict[str, Known], layout: int) -> None:
        self.relation = relation
        self.facts = facts
        self.layout = layout
        self.made: list[Stage] = []
        self.copies: dict[str, Stage] = {}
        self.scans: dict[str, list[Scan]] = {}
        self.shapes: dict[Node, Stage] = {}

    def split(self, node: Node) -> tuple[Stage, ...]:
        for scan in (n for n in walk(node) if isinstance(n, Scan)):
            self.scans.setdefault(scan.relation, []).append(scan)
        below, items = (node.input, node.items) if isinstance(node, Project) else (node, kept(node))
        if isinstance(below, Aggregate):
            last: Stage = self.groups(self.relation, below, items)
        elif isinstance(below, Filter) and self.is_best(below):
            last = self.best(self.relation, below, items)
        elif isinstance(below, Window) and not _is_settled(below):
            last = self.partitions(self.relation, below, items)
        else:
            plan = tidy(self.visit(node, stored=False))
            last = _rows(self.relation, plan, self.facts)
        return (*self.made, last)

    def visit(self, node: Node, *, stored: bool) -> Node:
        """The node over stages. `stored`: its content is read, not only its changes."""
        alone = not self.is_shared(node) or _joins_once(node)
        if stored and not self.has_content(node) and alone:
            return self.once(node, lambda: self.rows(node))
        match node:
            case Scan(relation=relation) if stored and not self.facts[relation].stored:
                return self.copied(node)
            case Scan() | Values():
                return node
            case Aggregate():
                return self.once(node, lambda: self.groups(self.name(), node, kept(node)))
            case Filter() if self.is_best(node):
                return self.once(node, lambda: self.best(self.name(), node, kept(node)))
            case Filter() if moving_in(node.condition):
                return self.cut(node.with_inputs([self.visit(node.input, stored=True)]))
            case Join(temporal=True):
                left, right = self.visit(node.left, stored=stored), node.right
                if not all(self.facts[r].foreign for r in relations_read(right)):
                    right = self.visit(right, stored=True)
                return self.cut(node.with_inputs([left, right]))
            case Join():
                return self.cut(node.with_inputs([self.visit(i, stored=True) for i in node.inputs]))
            case Window() if not _is_settled(node):
                return self.scan(self.partitions(self.name(), node, kept(node)))
            case Window():
                return node.with_inputs([self.below_window(node)])
            case SetOperation():
                made = [self.visit(i, stored=stored) for i in node.inputs]
                return self.cut_union(replace(node, branches=tuple(made)))
        return node.with_inputs([self.visit(i, stored=stored) for i in node.inputs])

    def once(self, node: Node, make: Callable[[], Stage]) -> Node:
        """The scan of a node's stage. Nodes that differ in nothing but names share one."""
        shape = canonical(node)
        if shape not in self.shapes:
            stage = make()
            self.scan(stage)
            self.shapes[shape] = stage
        return _scan_shown(self.shapes[shape], node)

    # -- plans that would become too large --------------------------------------------------------

    def too_large(self, nodes: int) -> bool:
        """Whether a part below is to be stored. The first layout has cut plans before, by its own estimate."""
        return self.layout != FIRST_LAYOUT and nodes > MAX_DELTA

    def stored(self, node: Node) -> Node:
        """The scan of a stage of a plan that has been visited."""
        return self.once(node, lambda: self.rows_of(node))

    def below_stage(self, node: Node, nodes: int) -> Node:
        """The input of a stage that has so many nodes: as it is, or stored."""
        worth = self.too_large(nodes) and size_of(node).delta > SMALL
        return self.stored(node) if worth else node

    def cut(self, node: Node) -> Node:
        """A node whose delta reads its inputs more than once, with one of them stored, or two if that leaves much."""
        best = size_of(node).delta
        if not self.too_large(best):
            return node
        sizes = [size_of(i).delta for i in node.inputs]
        if isinstance(node, Join) and node.temporal:
            sizes[1:] = [0]  # its right side may be a table of others
        large = sorted((n for n, s in enumerate(sizes) if s > SMALL), key=lambda n: -sizes[n])
        chosen: list[int] = []
        for some in (*([n] for n in large), large):
            inputs = [_table_like(i) if n in some else i for n, i in enumerate(node.inputs)]
            nodes = size_of(node.with_inputs(inputs)).delta
            if nodes < best and best > MAX_DELTA // 2:
                best, chosen = nodes, some
        return node.with_inputs(
            [self.stored(i) if n in chosen else i for n, i in enumerate(node.inputs)]
        )

    def cut_union(self, node: SetOperation) -> Node:
        """A union of so many branches that some of them are united in tables of their own.

        Its delta reads each branch once, so it may have more nodes than a join.
        """
        if not self.too_large(size_of(node).delta // 2):
            return node
        parts: list[list[Node]] = [[]]
        nodes = 0
        for branch in node.branches:
            size = size_of(branch).delta
            if parts[-1] and nodes + size >= MAX_DELTA:
                parts, nodes = [*parts, []], 0
            parts[-1].append(branch)
            nodes += size
        made: list[Node] = []
        for part in parts:
            one = part[0] if len(part) == 1 else replace(node, branches=tuple(part))
            made.append(self.stored(one) if size_of(one).delta > SMALL else one)
        return replace(node, branches=tuple(made))

    def is_shared(self, node: Node) -> bool:
        """Whether a source below is read in several places: then one copy of it serves them all."""
        return any(len(self.scans.get(r, ())) > 1 for r in relations_read(node))

    def copied(self, node: Scan) -> Node:
        """The scan of a source's copy, which has all columns that the plan reads of the source."""
        if node.relation not in self.copies:
            types = {
                i.expr.name: i.expr.type
                for scan in self.scans[node.relation]
                for i in scan.items
                if isinstance(i.expr, ColumnRef)
            }
            items = tuple(Item(n, ColumnRef(x, n)) for n, x in types.items())
            copy = Scan(node.relation, node.name, items)
            self.copies[node.relation] = self.keep(_rows(self.name(), copy, self.facts))
        return replace(node, relation=self.copies[node.relation].relation)

    def has_content(self, node: Node) -> bool:
        """Whether no part of a linear plan comes from a source that is not stored."""
        match node:
            case Scan(relation=relation):
                return self.facts[relation].stored
            case Filter() if self.is_best(node) or moving_in(node.condition):
                return True
            case Filter() | Project() | Unnest() | WindowTable() | Expand() | SetOperation():
                return all(self.has_content(i) for i in node.inputs)
            case Join(temporal=True):
                return False
        return True

    def name(self) -> str:
        return f"{self.relation}/{len(self.made) + 1}"

    def rows(self, node: Node) -> Stage:
        plan = tidy(self.visit(node, stored=False))
        return self.keep(_rows(self.name(), plan, self.facts))

    def keep(self, stage: Stage) -> Stage:
        self.made.append(stage)
        self.facts[stage.relation] = stage.known
        return stage

    def scan(self, stage: Stage) -> Node:
        if stage not in self.made:
            self.keep(stage)
        shown = [c for c in stage.columns if not c.name.startswith(HIDDEN)]
        items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in shown)
        return Scan(stage.relation, stage.relation, items)

    # -- groups -----------------------------------------------------------------------------------

    def groups(self, relation: str, node: Aggregate, items: tuple[Item, ...]) -> Stage:
        grown = grows(node.input, self.facts)
        aggregates = tuple(kept_of(i, grown) for i in node.aggregates)
        parts = {p.name: p for k in aggregates for p in k.parts}
        counter: str | None = None
        if not grown:
            counter = next((p.name for p in parts.values() if _counts_rows(p)), None)
            if counter is None:
                counter = f"{MADE}rows"
                parts[counter] = Part(counter, count(), "count")
                own = Kept(counter, (parts[counter],), ColumnRef(t.BIGINT, counter))
                aggregates = (*aggregates, own)
        whole_again = any(
            p.kind == "whole" or (not grown and (p.kind in ("least", "greatest") or not p.exact))
            for p in parts.values()
        )
        below = self.visit(node.input, stored=whole_again)
        if whole_again and not self._restrictable(below, node.groups):
            below = self.scan(self.rows_of(below))
        below = self.below_stage(
            below, groups_size(size_of(below), keyed=bool(node.groups), again=whole_again)
        )
        if relation != self.relation:
            relation = self.name()  # stages may have been made below
        core = replace(node, input=below)
        needed = [(g.name, g.expr.type) for g in node.groups]
        needed += [(p.name, p.type) for p in parts.values()]
        shown, names = _table(items, needed)
        if not node.groups:
            shown = (*shown, Item(f"{HIDDEN}one", whole(0, t.INTEGER)))
        for group in (g for g in node.groups if not is_plain(g.expr.type)):
            text = Cast(t.VARCHAR, group.ref)
            shown = (*shown, Item(f"{HIDDEN}text_{names[group.name]}", text))
        return Groups(
            relation, Project(core, shown), dict(self.facts), core, aggregates, counter, names
        )

    def rows_of(self, visited: Node) -> Stage:
        """A stage of a plan that has been visited."""
        return self.keep(_rows(self.name(), tidy(visited), self.facts))

    def _restrictable(self, node: Node, groups: Sequence[Item]) -> bool:
        """Whether the rows of single groups can be looked up."""
        names = [g.expr.name for g in groups if isinstance(g.expr, ColumnRef)]
        if not names:
            return True
        kinds = {type(n) for n in walk(keyed_content(node, names))}
        return Lookup in kinds and Scan not in kinds

    # -- the best ---------------------------------------------------------------------------------

    def is_best(self, node: Filter) -> bool:
        """WHERE rank <= n over an input that only grows."""
        window = node.input
        if not isinstance(window, Window) or not grows(window.input, self.facts):
            return False
        ranks = {i.name for i in window.calls if _rank(i.expr)}
        if len(ranks) != len(window.calls) or not _share_order(window.calls):
            return False  # a row that one order leaves out may count in another
        return all(_at_most(x, ranks) for x in conjuncts(node.condition))

    def best(self, relation: str, node: Filter, items: tuple[Item, ...]) -> Stage:
        window = node.input
        assert isinstance(window, Window)
        below = self.visit(window.input, stored=False)
        below = self.below_stage(below, best_size(size_of(below)))
        if relation != self.relation:
            relation = self.name()
        core = Filter(replace(window, input=below), node.condition)
        shown, names = _table(items, [(c.name, c.type) for c in below.columns])
        made = Best(relation, Project(core, shown), dict(self.facts), core, names)
        return replace(made, plan=Project(core, _told_apart(made, shown)))

    # -- partitions -------------------------------------------------------------------------------

    def partitions(self, relation: str, node: Window, items: tuple[Item, ...]) -> Stage:
        below = self.below_window(node)
        if relation != self.relation:
            relation = self.name()
        core = replace(node, input=below)
        keys = [(e.name, e.type) for e in node.partition_by if isinstance(e, ColumnRef)]
        shown, names = _table(items, keys)
        made = Partitions(relation, Project(core, shown), dict(self.facts), core, names)
        return replace(made, plan=Project(core, _told_apart(made, shown)))

    def below_window(self, node: Window) -> Node:
        """The input of a window, whose content is read."""
        below = self.visit(node.input, stored=True)
        if any(isinstance(n, Window) for n in walk(below)):
            below = self.scan(self.rows_of(below))
        return self.below_stage(below, size_of(node.with_inputs([below])).delta)


def _table_like(node: Node) -> Node:
    """What a plan is for those above it once it is stored."""
    return scan_of(node, "", node.names)


def _rows(relation: str, plan: Node, facts: Facts) -> Rows:
    """A stage of rows. Where only the whole row tells them apart, lists and structs are there as texts, too."""
    stage = Rows(relation, plan, dict(facts))
    if stage.key == () and not stage.grows:
        one = Item(f"{HIDDEN}one", whole(0, t.INTEGER))
        return Rows(relation, Project(plan, (*kept(plan), one)), dict(facts))
    texts = () if stage.grows else _texts(plan.columns, stage.key)
    return Rows(relation, Project(plan, (*kept(plan), *texts)), dict(facts)) if texts else stage


def _texts(columns: Sequence[OutColumn], key: Key | None) -> tuple[Item, ...]:
    """Columns that tell rows apart but cannot be looked up, as texts."""
    return tuple(
        Item(f"{HIDDEN}text_{c.name}", Cast(t.VARCHAR, ColumnRef(c.type, c.name)))
        for c in columns
        if not is_plain(c.type) and (key is None or c.name in key)
    )


def _table(
    items: tuple[Item, ...], columns: Sequence[tuple[str, t.Type]]
) -> tuple[tuple[Item, ...], dict[str, str]]:
    """The columns of a stage's table, and under which of them each column that it needs is found."""
    names: dict[str, str] = {}
    for item in items:
        if isinstance(item.expr, ColumnRef):
            names.setdefault(item.expr.name, item.name)
    added: list[Item] = []
    for name, type in columns:
        if name not in names:
            made = name.startswith(MADE)
            names[name] = HIDDEN + (name.removeprefix(MADE) if made else f"column_{name}")
            added.append(Item(names[name], ColumnRef(type, name)))
    wanted = {name for name, _ in columns}
    return (*items, *added), {c: s for c, s in names.items() if c in wanted}


def _counts_rows(part: Part) -> bool:
    return part.kind == "count" and not part.made.args and part.made.filter is None


def _rank(expr: Expr) -> bool:
    return (
        isinstance(expr, WindowCall)
        and isinstance(expr.call, Call)
        and expr.call.function.name in ("row_number", "rank", "dense_rank")
    )


def _at_most(test: Expr, ranks: set[str]) -> bool:
    if not (isinstance(test, Call) and len(test.args) == 2):
        return False
    left, right = test.args
    if not (isinstance(left, ColumnRef) and left.name in ranks and isinstance(right, Literal)):
        return False
    name = test.function.name
    return name in ("<=", "<") or (name == "=" and right.value == 1)


def _told_apart(stage: Stage, shown: tuple[Item, ...]) -> tuple[Item, ...]:
    """The columns of a table whose rows can be found one by one."""
    if stage.key == ():
        return (*shown, Item(f"{HIDDEN}one", whole(0, t.INTEGER)))
    texts = {i.name: i for i in _texts(stage.columns, stage.key)}
    exprs = {i.name: i.expr for i in shown}
    added = tuple(
        Item(name, Cast(t.VARCHAR, exprs[name.removeprefix(f"{HIDDEN}text_")])) for name in texts
    )
    return (*shown, *added)


def _joins_once(node: Node) -> bool:
    """Whether a plan has a temporal join: what it gave for a row is known only where it is stored."""
    return any(isinstance(n, Join) and n.temporal for n in walk(node))


def _is_settled(node: Window) -> bool:
    total = all(has_total_order(c.type) for c in node.input.columns)
    return all(is_settled(i.expr, total) for i in node.calls if isinstance(i.expr, WindowCall))


def _share_order(calls: Sequence[Item]) -> bool:
    """Whether the orders of window calls are one order, of which some calls leave out the last keys."""
    orders = [i.expr.order_by for i in calls if isinstance(i.expr, WindowCall)]
    longest = max(orders, key=len)
    return all(longest[: len(order)] == order for order in orders)
