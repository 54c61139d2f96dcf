"""What a name may mean inside a query: the columns of its FROM, then those of the queries around it.

The user's `relation.column` is looked up here and comes back under the name it has in the plan. A column of a query
further out comes back as an `OuterRef`, which the decorrelation turns into a join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from icestream.errors import Place, SqlError
from icestream.functions import Scope
from icestream.functions.expressions import ColumnRef
from icestream.plan.logical import Node
from icestream.sql.statements import Name
from icestream.types import Type

HIDDEN = "_icestream_"  # columns of the engine's own, which * does not show


@dataclass(frozen=True)
class Relation:
    """What a name in FROM stands for. With a query it is a view, whose plan takes its place."""

    key: str
    name: str
    columns: tuple[tuple[str, Type], ...]
    query: Node | None = None
    versions: bool = False
    """Whether it can be read as it was."""


Relations = Callable[[Name], Relation]


@dataclass(frozen=True)
class Output:
    """A bound query: its plan, whose columns have unique names, and the names that the user sees."""

    node: Node
    names: tuple[str, ...]


@dataclass(frozen=True)
class OuterRef(ColumnRef):
    """A column of a query around this one: `depth` 1 is the next one out."""

    depth: int = 1


@dataclass(frozen=True)
class Visible:
    """A column in FROM. Not `bare`: only with its qualifier, because a USING has merged it into another."""

    name: str
    qualifier: str | None
    ref: ColumnRef
    bare: bool = True


@dataclass(frozen=True)
class FromScope(Scope):
    """The columns of a FROM clause, in the order in which * shows them."""

    entries: tuple[Visible, ...] = ()
    outer: Scope | None = None

    def find(self, name: str, qualifier: str | None = None) -> list[ColumnRef]:
        """All columns that the name may mean; those of the queries around only if there is none here."""
        found = [
            e.ref
            for e in self.entries
            if e.name == name and (e.bare if qualifier is None else e.qualifier == qualifier)
        ]
        if found or self.outer is None or (qualifier and self.has_own(qualifier)):
            return found
        return [further(ref) for ref in self.outer.find(name, qualifier)]

    def has_own(self, qualifier: str) -> bool:
        """Whether a relation of that name stands in this FROM."""
        return any(e.qualifier == qualifier for e in self.entries)

    def has_relation(self, qualifier: str) -> bool:
        """Whether a relation of that name stands in this FROM or one around."""
        return self.has_own(qualifier) or bool(self.outer and self.outer.has_relation(qualifier))

    def resolve(self, name: str, qualifier: str | None, place: Place | None) -> ColumnRef:
        """The one column meant, by its name in the plan."""
        found = self.find(name, qualifier)
        if len(found) == 1:
            return found[0]
        return Scope(self.shown()).resolve(name, qualifier, place)

    def shown(self) -> tuple[ColumnRef, ...]:
        """All columns under the names that the user knows, for messages."""
        own = tuple(ColumnRef(e.ref.type, e.name, e.qualifier) for e in self.entries)
        return own + (self.outer.shown() if isinstance(self.outer, FromScope) else ())

    def named(self, ref: ColumnRef) -> str:
        """The column as messages call it: relation.column."""
        for e in self.entries:
            if e.ref.name == ref.name:
                return f"{e.qualifier}.{e.name}" if e.qualifier else e.name
        return ref.name

    def beside(self, other: FromScope) -> FromScope:
        """The columns of two relations, side by side."""
        return replace(self, entries=(*self.entries, *other.entries))


def further(ref: ColumnRef) -> OuterRef:
    """A column as the query one deeper sees it."""
    depth = ref.depth + 1 if isinstance(ref, OuterRef) else 1
    return OuterRef(ref.type, ref.name, ref.qualifier, depth)


class Names:
    """Hands out names for columns, each only once in a query."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """`wanted`, or `wanted_2`, … if it is taken."""
        name, count = wanted, self._taken.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count + 1}"
        self._taken[wanted] = count
        self._taken.setdefault(name, 0)
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Names that must not be handed out: those inside a view's plan."""
        for name in names:
            self._taken.setdefault(name, 0)


@dataclass(frozen=True)
class Source:
    """A part of FROM: its plan, and what can be named in it."""

    node: Node
    scope: FromScope


@dataclass(frozen=True)
class Context:
    """What every part of the binder needs. `bind` binds a query inside a query."""

    relations: Relations
    place_of: Callable[[exp.Expression], Place]
    bind: Callable[[exp.Expression, Context], Output]
    names: Names = field(default_factory=Names)
    ctes: Mapping[str, Callable[[], Output]] = field(default_factory=dict)
    outer: FromScope | None = None

    def inner(self, scope: FromScope | None) -> Context:
        """The context of a query that sees the columns of `scope` as outer ones."""
        return replace(self, outer=scope)


def with_aliases(
    names: Sequence[str],
    given: Sequence[str],
    qualifier: str | None,
    alias: exp.Expression | None,
    ctx: Context,
) -> tuple[str, ...]:
    """The names of columns after `AS t (a, b, …)`."""
    if alias is not None and len(given) > len(names):
        raise SqlError(
            f'table "{qualifier}" has {len(names)} columns available '
            f"but {len(given)} columns specified",
            place=ctx.place_of(alias),
        )
    return (*given, *names[len(given) :])
