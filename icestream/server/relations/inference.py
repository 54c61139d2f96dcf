"""Which PostgreSQL types the expressions of a query have, found by following columns to their relations.

DuckDB knows neither oid nor name nor "char": it has numbers and texts. Clients do care, since the type's OID
says how a value is sent. Where this gives None, DuckDB's own type says enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from icestream.server.relations.datatypes import BUILT_IN, named
from icestream.server.relations.dialect import function_name, type_name
from icestream.server.relations.functions import macros
from icestream.server.relations.schema import Relation, relation

_ARGUMENTS = {
    "pretty__": "bool", "missing__": "bool", "implicit__": "bool", "local__": "bool", "it__": "oid",
    "column__": "int4", "dimension__": "int4", "modifier__": "int4", "table__": "oid",
}  # fmt: skip
"""The types of parameters of macros, by their names; text where there is none."""

_ELEMENTS = {"int2vector": "int2", "oidvector": "oid"}

Outputs = list[tuple[str, str | None]]
Declared = tuple[str | None, ...]
"""The types of $1, $2, … that the client has declared; None where it has not."""


def element(type: str | None) -> str | None:
    """The type of an array's elements."""
    if type and type.startswith("_"):
        return type[1:]
    return _ELEMENTS.get(type or "")


def array_of(type: str | None) -> str | None:
    """The type of arrays of a type."""
    return f"_{type}" if type and f"_{type}" in BUILT_IN else None


class Types:
    """The types of one query's expressions. Made before anything in the tree is rewritten."""

    def __init__(self, query: exp.Query, declared: Declared = ()) -> None:
        self._declared = dict(enumerate(declared, 1))
        self._scopes = {id(scope.expression): scope for scope in traverse_scope(query)}
        self._followed: set[int] = set()
        """Sources that are being looked into: a function in FROM does not read its own result."""

    def outputs(self, query: exp.Expression | None) -> Outputs | None:
        """The names and types of a query's columns; None where a star cannot be followed."""
        while isinstance(query, (exp.Subquery, exp.Paren)):
            query = query.this
        if isinstance(query, exp.SetOperation):
            return self.outputs(query.left)
        if not isinstance(query, exp.Select):
            return None
        found: Outputs = []
        for projection in query.selects:
            if projection.is_star:
                columns = self._star(query, projection)
                if columns is None:
                    return None
                found += columns
            else:
                found.append((title(projection), self.of(projection)))
        return found

    def of(self, node: exp.Expression | None) -> str | None:
        """The type of an expression, by PostgreSQL's name."""
        match node:
            case exp.Alias() | exp.Paren() | exp.Collate() | exp.Min() | exp.Max() | exp.Nullif():
                return self.of(node.this)
            case exp.Coalesce():
                return self._common([node.this, *node.expressions])
            case exp.Column():
                return self._column(node)
            case exp.Cast():
                return named(type_name(node.to))
            case exp.Case():
                branches = [branch.args["true"] for branch in node.args["ifs"]]
                return self._common([*branches, node.args.get("default")])
            case exp.Subquery() | exp.Select():
                outputs = self.outputs(node)
                return outputs[0][1] if outputs else None
            case exp.Dot():
                return self.of(node.expression) if isinstance(node.expression, exp.Func) else None
            case exp.Bracket():
                return element(self.of(node.this))
            case exp.Unnest() | exp.Explode():
                inner = node.expressions[0] if node.expressions else node.this
                return element(self.of(inner))
            case exp.Array():
                return array_of(self.of(node.expressions[0])) if node.expressions else None
            case exp.ArrayAgg():
                inner = node.this
                return array_of(self.of(inner.this if isinstance(inner, exp.Order) else inner))
            case exp.Sum():
                return "int8" if self.of(node.this) in ("int2", "int4") else None
            case exp.DPipe() | exp.Concat():
                return "text"
            case exp.Literal():
                return "text" if node.is_string else None
            case exp.Null():
                return "text"
            case exp.Parameter():
                return self.parameter(node)
            case exp.Func():
                macro = macros().get(function_name(node))
                return (
                    macro.result if macro and macro.result not in ("record", "anyarray") else None
                )
        return None

    def _common(self, nodes: list[exp.Expression | None]) -> str | None:
        """The type that several expressions come to; a bare text or NULL takes that of the others."""
        given = [node for node in nodes if node is not None]
        telling = [node for node in given if not (node.is_string or isinstance(node, exp.Null))]
        types = [type for type in map(self.of, telling) if type]
        return types[0] if types else None if telling else "text"

    def parameter(self, node: exp.Parameter) -> str:
        """The type of $n: as declared, else from where it is used."""
        if declared := self._declared.get(int(node.name)):
            return declared
        parent = node.parent
        while isinstance(parent, exp.Paren):
            parent = parent.parent
        match parent:
            case exp.Cast():
                type = named(type_name(parent.to))
                # '…'::regclass is given as a text.
                return "text" if type is None or type.startswith("reg") else type
            case exp.Any():
                holder = parent.parent
                other = holder.this if isinstance(holder, exp.Binary) else None
                return array_of(self.of(other)) or "_text"
            case exp.Limit() | exp.Offset():
                return "int8"
            case exp.In() | exp.Binary() | exp.Between():
                sides = [
                    parent.this,
                    parent.args.get("expression"),
                    *(parent.args.get("expressions") or ()),
                ]
                types = (self.of(s) for s in sides if s is not None and not s.find(exp.Parameter))
                found = next((type for type in types if type), "text")
                return "text" if found.startswith("reg") else found
            case exp.Anonymous() if macro := macros().get(function_name(parent)):
                names = [name.split()[0] for name in macro.parameters.split(", ") if name]
                place = next(i for i, each in enumerate(parent.expressions) if each is node)
                return _ARGUMENTS.get(names[place], "text") if place < len(names) else "text"
        return "text"

    def source(self, column: exp.Column) -> Relation | None:
        """The system relation that a column is of, if it is of one directly."""
        for name, source in self._sources(column):
            if isinstance(source, exp.Table) and column.table in ("", name):
                found = relation_of(source)
                if found:
                    return found
        return None

    def _column(self, column: exp.Column) -> str | None:
        if column.name == "xmin":
            return "xid"
        for name, source in self._sources(column):
            if column.table in ("", name):
                for title, type in self._columns(name, source) or ():
                    if title == column.name:
                        return type
        return None

    def _sources(self, column: exp.Column) -> Iterator[tuple[str, exp.Table | Scope]]:
        """What a column can be of: the sources of its query, then of those around it."""
        select = column.find_ancestor(exp.Select)
        scope = self._scopes.get(id(select))
        while scope is not None:
            yield from ((name, source) for name, (_, source) in scope.selected_sources.items())
            scope = scope.parent

    def _star(self, query: exp.Select, star: exp.Expression) -> Outputs | None:
        scope = self._scopes.get(id(query))
        wanted = star.table if isinstance(star, exp.Column) else ""
        found: Outputs = []
        for name, (_, source) in scope.selected_sources.items() if scope else ():
            if wanted in ("", name):
                columns = self._columns(name, source)
                if columns is None:
                    return None
                found += columns
        return found or None

    def _columns(self, name: str, source: exp.Table | Scope) -> Outputs | None:
        """The columns of a source, under the names that its alias gives them."""
        if id(source) in self._followed:
            return None
        self._followed.add(id(source))
        try:
            return self._renamed(name, source)
        finally:
            self._followed.remove(id(source))

    def _renamed(self, name: str, source: exp.Table | Scope) -> Outputs | None:
        found: Outputs | None
        if isinstance(source, exp.Table):
            known = relation_of(source)
            found = list(known.columns.items()) if known else self._function(name, source.this)
            alias = source.args.get("alias")
        elif isinstance(source.expression, exp.Unnest):
            items = source.expression.expressions
            found = [(name, element(self.of(item))) for item in items]
            if source.expression.args.get("offset"):
                found.append(("ordinality", "int8"))
            alias = source.expression.args.get("alias")
        else:
            found = self.outputs(source.expression)
            holder = source.expression.parent
            alias = holder.args.get("alias") if holder is not None else None
        titles = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
        if found and titles:
            found = [*zip(titles, (type for _, type in found), strict=False), *found[len(titles) :]]
        return found

    def _function(self, name: str, call: exp.Expression) -> Outputs | None:
        """The column of a function in FROM that gives values, not a table."""
        if isinstance(call, exp.ExplodingGenerateSeries):
            return [(name, self.of(call.args["start"]) or "int4")]
        if isinstance(call, exp.Func) and (type := self.of(call)):
            return [(name, type)]
        return None


def relation_of(table: exp.Table) -> Relation | None:
    """The system relation that a table is, if it is one."""
    if not isinstance(table.this, exp.Identifier):
        return None
    return relation(table.db or None, table.name)


def title(node: exp.Expression) -> str:
    """The name that PostgreSQL gives a column of a result."""
    return _title(node)[0]


def _title(node: exp.Expression) -> tuple[str, bool]:
    """A name, and whether it is one that a cast around it leaves alone."""
    match node:
        case exp.Alias():
            return str(node.alias), True
        case exp.Column() | exp.Identifier():
            return str(node.name), True
        case exp.Paren() | exp.Bracket() | exp.Collate() | exp.Window() | exp.Filter():
            return _title(node.this)
        case exp.Cast():
            name, strong = _title(node.this)
            target = named(type_name(node.to)) or type_name(node.to)
            return (name, True) if strong else (target.removeprefix("_"), False)
        case exp.Case():
            name, strong = _title(node.args["default"]) if node.args.get("default") else ("", False)
            return (name, True) if strong else ("case", False)
        case exp.Dot():
            return _title(node.expression)
        case exp.Subquery() if isinstance(node.this, exp.Query) and node.this.selects:
            return _title(node.this.selects[0])
        case exp.Array() | exp.Exists():
            return type(node).__name__.lower(), True
        case exp.Func() if not isinstance(node, exp.Binary):
            return function_name(node), True
    return "?column?", False
