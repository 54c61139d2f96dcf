"""PostgreSQL's SQL over system relations → what DuckDB runs over ours.

Names of relations and functions become those of `schema` and `functions`; casts to types that DuckDB does not
have become casts to what holds them; an OID that prints as a name is looked up. Pure: text → text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from icestream.server.relations.datatypes import BUILT_IN, REGISTERED, duck, named
from icestream.server.relations.dialect import function_name, parse, type_name
from icestream.server.relations.errors import unknown_function, unknown_relation, unknown_type
from icestream.server.relations.functions import SCHEMA, SHARED, macros
from icestream.server.relations.inference import Declared, Outputs, Types, relation_of, title
from icestream.server.relations.schema import SCHEMAS, inside

_WHAT = {
    "regclass": "relation", "regtype": "type", "regproc": "function", "regprocedure": "function",
    "regnamespace": "schema", "regrole": "role",
}  # fmt: skip
_TEXTS = ("text", "varchar", "name", "bpchar")
_VECTORS = ("int2vector", "oidvector")
_JOINING = ("array_to_string", "string_agg", "concat_ws")
_OF_RELATIONS = (
    "pg_relation_size",
    "pg_table_size",
    "pg_total_relation_size",
    "pg_indexes_size",
    "pg_relation_filenode",
)
"""Functions of a relation, which may be given by its name."""
_WORDS = (
    "user",
    "current_role",
    "session_user",
    "current_user",
    "current_catalog",
    "current_schema",
)
"""Functions that are called without parentheses."""

_OPERATORS: dict[str, Callable[[exp.Expression, exp.Expression], exp.Expression]] = {
    "~": lambda a, b: exp.RegexpLike(this=a, expression=b),
    "~*": lambda a, b: exp.RegexpILike(this=a, expression=b),
    "!~": lambda a, b: exp.Not(this=exp.RegexpLike(this=a, expression=b)),
    "!~*": lambda a, b: exp.Not(this=exp.RegexpILike(this=a, expression=b)),
    "~~": lambda a, b: exp.Like(this=a, expression=b),
    "~~*": lambda a, b: exp.ILike(this=a, expression=b),
    "!~~": lambda a, b: exp.Not(this=exp.Like(this=a, expression=b)),
    "=": lambda a, b: exp.EQ(this=a, expression=b),
    "<>": lambda a, b: exp.NEQ(this=a, expression=b),
}


@dataclass(frozen=True)
class Rewritten:
    """A query as DuckDB runs it."""

    sql: str
    parameters: tuple[str, ...]
    """The types of $1, $2, …, by PostgreSQL's names."""
    used: frozenset[str]
    """The numbers of those that the text still has."""
    outputs: Outputs | None
    """The names and types of its columns, as far as they are known."""
    settings: tuple[tuple[exp.Expression, exp.Expression], ...]
    """What it sets with set_config: (name, value), each a literal or a parameter."""


def rewrite(sql: str, declared: Declared = ()) -> Rewritten:
    """The same question for DuckDB. Raises when it names what does not exist."""
    query = parse(sql)
    types = Types(query, declared)
    outputs = types.outputs(query)
    parameters: dict[int, str] = {}
    for parameter in query.find_all(exp.Parameter):
        number = int(parameter.name)
        type = types.parameter(parameter)
        if parameters.get(number, "text") == "text":
            parameters[number] = type
    settings = tuple(
        (call.expressions[0], call.expressions[1])
        for call in query.find_all(exp.Anonymous)
        if function_name(call) == "set_config" and len(call.expressions) == 3
    )
    _Rewriter(query, types).run()
    count = max(parameters, default=0)
    return Rewritten(
        query.sql("duckdb"),
        tuple(parameters.get(number, "text") for number in range(1, count + 1)),
        frozenset(parameter.name for parameter in query.find_all(exp.Parameter)),
        outputs,
        settings,
    )


def array_items(text: str) -> list[str | None]:
    """The elements of an array that is written as '{a,"b c",NULL}'."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,{}]+)', text.strip().strip("{}"))
    return [
        re.sub(r"\\(.)", r"\1", quoted) if quoted or not plain else None if plain.strip().upper() == "NULL" else plain.strip()
        for quoted, plain in found
    ]  # fmt: skip


class _Rewriter:
    """One pass over a tree. Types are asked for a node before it or what is in it changes."""

    def __init__(self, query: exp.Query, types: Types) -> None:
        self.query = query
        self.types = types
        self.ctes = {cte.alias for cte in query.find_all(exp.CTE)}

    def run(self) -> None:
        """Rewrite everything, in place."""
        nodes = list(self.query.walk(bfs=True))
        # What a node becomes depends on the types around it: decide for all first, from the untouched tree.
        edits = [(node, edit) for node in nodes if (edit := self.edit(node))]
        for node, edit in reversed(edits):
            edit(node)
        for name in self.query.find_all(exp.Identifier):
            name.set("quoted", True)

    def edit(self, node: exp.Expression) -> Callable[[exp.Expression], None] | None:
        """What to do with a node, if anything."""
        match node:
            case exp.Table():
                return self._table(node)
            case exp.Select():
                return self._select(node)
            case exp.Column():
                return self._column(node)
            case exp.Operator():
                return _operator
            case exp.Collate():
                return lambda n: _replace(n, n.this)
            case exp.Cast():
                return self._cast(node)
            case exp.DPipe() | exp.Concat():
                return self._texts(node)
            case exp.ByteString():
                return lambda n: _replace(n, exp.Literal.string(n.name))
            case exp.Like() | exp.ILike() if not isinstance(node.parent, exp.Escape):
                return _escaped
            case exp.Bracket() if self.types.of(node.this) in _VECTORS:
                return _shifted
            case exp.EQ() if isinstance(node.expression, exp.Any):
                return self._contains(node, node.expression.this, negated=False)
            case exp.NEQ() if function_name(node.expression) == "all":
                return self._contains(node, node.expression.expressions[0], negated=True)
            case exp.Coalesce() if (self.types.of(node.this) or "").startswith("_"):
                return _array_defaults
            case exp.Parameter():
                type = self.types.parameter(node)
                return lambda n: _replace(n, _as(n.copy(), duck(type)))
            case exp.Unnest():
                return _side_by_side if len(node.expressions) > 1 else _named_after_itself
            case exp.Func():
                return self._call(node)
        return None

    def _table(self, table: exp.Table) -> Callable[[exp.Expression], None] | None:
        if isinstance(table.this, exp.Func):
            return self._table_function(table)
        if not table.db and table.name in self.ctes:
            return None
        found = relation_of(table)
        if found is None:
            raise unknown_relation(f"{table.db}.{table.name}" if table.db else table.name)

        def edit(node: exp.Expression) -> None:
            if not node.alias:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(found.name)))
            node.set("db", exp.to_identifier(inside(found.schema)))
            node.set("catalog", None)

        return edit

    def _table_function(self, table: exp.Table) -> Callable[[exp.Expression], None]:
        """A function in FROM: a macro that gives a table, or a value that becomes a table of one column."""
        call = table.this
        name = function_name(call)
        macro = macros().get(name)
        if not macro and name not in SHARED:
            raise self._unknown(call)

        def edit(node: exp.Expression) -> None:
            inner = node.this
            inner = inner.expression if isinstance(inner, exp.Dot) else inner
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
            if name == "_pg_expandarray":
                inner = _fn("expanded", inner.expressions)
            elif name == "unnest":
                node.replace(exp.Unnest(expressions=[inner.this], alias=_with_column(alias)))
                return
            elif (macro and macro.result is not None) or name not in ("generate_series", *macros()):
                select = exp.select(exp.alias_(node.this.copy(), name))
                node.replace(exp.Lateral(this=exp.Subquery(this=select), alias=_with_column(alias)))
                return
            elif not macro:
                alias = _with_column(alias)
            else:
                inner = node.this
            node.set("this", inner)
            node.set("db", None)
            node.set("alias", alias)

        return edit

    def _select(self, select: exp.Select) -> Callable[[exp.Expression], None]:
        """Columns of results are called what PostgreSQL calls them."""
        titles = [
            None if isinstance(p, exp.Alias | exp.Column) or p.is_star else title(p)
            for p in select.expressions
        ]

        grouped = self._grouped(select)

        def edit(node: exp.Expression) -> None:
            for column in grouped:
                node.args["group"].append("expressions", column)
            for name, projection in zip(titles, list(node.expressions), strict=True):
                if name and name != "?column?":
                    projection.replace(exp.alias_(projection.copy(), name, quoted=True))

        return edit

    def _grouped(self, select: exp.Select) -> list[exp.Expression]:
        """Columns that GROUP BY leaves out because a relation's OID, which is there, decides them."""
        group = select.args.get("group")
        keys = [k for k in group.expressions if isinstance(k, exp.Column)] if group else []
        tables = {key.table for key in keys if key.name == "oid" and self.types.source(key)}
        names = {(key.table, key.name) for key in keys}
        found: dict[tuple[str, str], exp.Expression] = {}
        for part in (*select.expressions, select.args.get("having"), select.args.get("order")):
            for column in part.find_all(exp.Column) if tables and part is not None else ():
                name = (column.table, column.name)
                if (
                    column.table in tables
                    and name not in names
                    and not column.find_ancestor(exp.AggFunc)
                ):
                    found[name] = column.copy()
        return list(found.values())

    def _column(self, column: exp.Column) -> Callable[[exp.Expression], None] | None:
        if not column.table and column.name in _WORDS and not column.this.quoted:
            return lambda n: _replace(n, _fn(n.name, []))
        if column.name in ("xmin", "tableoid") and (found := self.types.source(column)):
            value = 1 if column.name == "xmin" else found.oid
            return lambda n: _replace(n, _as(exp.Literal.number(value), "UINTEGER"))
        if column.args.get("db"):
            return lambda n: n.replace(exp.Column(this=n.this, table=n.args["table"]))
        return None

    def _cast(self, cast: exp.Cast) -> Callable[[exp.Expression], None]:
        written = type_name(cast.to)
        target, inner = named(written), self.types.of(cast.this)
        if target is None:
            raise unknown_type(written)
        if target in REGISTERED and _is_joined(cast):
            return lambda n: _replace(
                n, _fn("registered_text", [exp.Literal.string(target), n.this])
            )
        if target in REGISTERED:
            if inner in ("oid", "int4", "int8", *REGISTERED) or cast.this.is_int:
                return lambda n: _replace(n, _as(n.this, "UINTEGER"))
            what = exp.Literal.string(_WHAT[target])
            return lambda n: _replace(
                n, _fn("registered", [exp.Literal.string(target), what, n.this])
            )
        if target in _TEXTS and inner in REGISTERED:
            return lambda n: _replace(
                n, _fn("registered_text", [exp.Literal.string(inner), n.this])
            )
        if target in _TEXTS and (inner in _VECTORS or (inner or "").startswith("_")):
            edges = ("", " ", "") if inner in _VECTORS else ("{", ",", "}")
            return lambda n: _replace(n, _joined(n.this, *edges))
        if target.startswith("_") and cast.this.is_string:
            return lambda n: _replace(n, _as(_list(n.this.name), duck(target)))
        if target == "numeric":  # its precision, if any, stays
            return lambda n: None
        return lambda n: _replace(n, _as(n.this, duck(target)))

    def _texts(self, node: exp.Expression) -> Callable[[exp.Expression], None] | None:
        """Names, not OIDs, are concatenated; an array that is NULL adds nothing."""
        kinds = [self.types.of(part) or "" for part in node.iter_expressions()]
        if isinstance(node, exp.DPipe) and any(kind.startswith("_") for kind in kinds):
            return lambda n: _replace(
                n, exp.Anonymous(this="list_concat", expressions=_arguments(n))
            )
        if not any(kind in REGISTERED for kind in kinds):
            return None

        def edit(node: exp.Expression) -> None:
            for kind, part in zip(kinds, list(node.iter_expressions()), strict=True):
                if kind in REGISTERED:
                    part.replace(_fn("registered_text", [exp.Literal.string(kind), part]))

        return edit

    def _contains(
        self, node: exp.Binary, items: exp.Expression, *, negated: bool
    ) -> Callable[[exp.Expression], None] | None:
        """x = ANY (array): a look into the array, not a query over it."""
        items = items.unnest()
        if isinstance(items, exp.Query):
            return None
        of_left, literal = self.types.of(node.this), items.is_string
        text = items.name
        strings = isinstance(items, exp.Array) and all(i.is_string for i in items.expressions)

        def edit(node: exp.Expression) -> None:
            holder = node.expression
            given = holder.this if isinstance(holder, exp.Any) else holder.expressions[0]
            array = _list(text) if literal else given.unnest()
            if (literal or strings) and of_left:
                array = _as(array, f"{duck(of_left)}[]")
            found: exp.Expression = exp.Anonymous(
                this="list_contains", expressions=[array, node.this]
            )
            _replace(node, exp.Not(this=found) if negated else found)

        return edit

    def _call(self, node: exp.Func) -> Callable[[exp.Expression], None] | None:
        name = next((n for n in _names(node) if n in macros()), function_name(node))
        if isinstance(node, exp.Cast | exp.Connector):
            return None
        arguments = _arguments(node)
        first = self.types.of(arguments[0]) if arguments else None
        if name in ("json_build_object", "jsonb_build_object"):
            return lambda n: _replace(
                n, exp.Anonymous(this="json_object", expressions=_arguments(n))
            )
        if name == "format" and arguments and arguments[0].is_string:
            return lambda n: _replace(n, _formatted(n))
        if name in ("json_agg", "jsonb_agg"):
            return lambda n: _replace(
                n, exp.Anonymous(this="json_group_array", expressions=_arguments(n))
            )
        if name == "substring" and len(arguments) == 2 and arguments[1].is_string:
            return lambda n: _replace(
                n, exp.Anonymous(this="regexp_extract", expressions=_arguments(n))
            )
        if name in _OF_RELATIONS and first == "text":
            return lambda n: _replace(n, _fn(name, [_relation(n), *_arguments(n)[1:]]))
        if name == "age" and first == "xid":
            return lambda n: _replace(n, exp.Literal.number(1))
        if first in _VECTORS and name == "generate_subscripts":
            return lambda n: _replace(n, _fn("vector_subscripts", _arguments(n)[:1]))
        if first in _VECTORS and name in ("array_upper", "array_lower"):
            return lambda n: _replace(n, exp.Paren(this=_fn(name, _arguments(n)) - 1))
        if name in macros():
            if not macros()[name].takes(len(arguments)):
                raise self._unknown(node)
            return lambda n: _replace(n, _fn(name, _arguments(n)))
        if isinstance(node, exp.Anonymous) and name not in SHARED:
            raise self._unknown(node)
        return _unqualified if isinstance(node.parent, exp.Dot) else None

    def _unknown(self, call: exp.Expression) -> Exception:
        """That function does not exist, with the types of its arguments as PostgreSQL says them."""
        types = [self.types.of(a) or ("int4" if a.is_int else "unknown") for a in _arguments(call)]
        shown = ", ".join(BUILT_IN[type].display for type in types)
        return unknown_function(f"{function_name(call)}({shown})")


def _is_joined(node: exp.Expression) -> bool:
    """Whether a value goes into a text, alone or as an element of an array."""
    holder = node.parent
    while isinstance(holder, exp.ArrayAgg | exp.Order | exp.Paren | exp.Array | exp.Distinct):
        holder = holder.parent
    return isinstance(holder, exp.Func) and function_name(holder) in _JOINING


def _joined(array: exp.Expression, first: str, between: str, last: str) -> exp.Expression:
    """An array as a text."""
    text = _fn("array_to_string", [array, exp.Literal.string(between)])
    return exp.Paren(
        this=exp.DPipe(
            this=exp.DPipe(this=exp.Literal.string(first), expression=text),
            expression=exp.Literal.string(last),
        )
    )


def _relation(call: exp.Expression) -> exp.Expression:
    """The OID of the relation whose name is the first argument of a call."""
    kind, what = exp.Literal.string("regclass"), exp.Literal.string("relation")
    return _fn("registered", [kind, what, _arguments(call)[0]])


def _replace(node: exp.Expression, by: exp.Expression) -> None:
    """Put an expression where a node is; a call's schema goes with the call."""
    holder = node.parent
    if isinstance(holder, exp.Dot) and holder.expression is node and holder.this.name in SCHEMAS:
        node = holder
    node.replace(by)


def _unqualified(node: exp.Expression) -> None:
    _replace(node, node.copy())


def _names(node: exp.Func) -> list[str]:
    """Every name that a call may have been written with."""
    if isinstance(node, exp.Anonymous | exp.CurrentVersion):
        return [function_name(node)]
    return [name.lower() for name in type(node).sql_names()]


def _arguments(node: exp.Expression) -> list[exp.Expression]:
    """The arguments of a call, in order."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    return [each for each in node.iter_expressions() if isinstance(each, exp.Expression)]


def _fn(name: str, arguments: list[exp.Expression]) -> exp.Expression:
    """A call of a macro."""
    copies = [argument.copy() for argument in arguments]
    return exp.Dot(
        this=exp.to_identifier(SCHEMA), expression=exp.Anonymous(this=name, expressions=copies)
    )


def _as(value: exp.Expression, type: str) -> exp.Expression:
    """A cast to a type of DuckDB."""
    return exp.Cast(this=value, to=exp.DataType.build(type, dialect="duckdb"))


def _list(text: str) -> exp.Expression:
    """An array that is written as '{a,b}'."""
    items = (exp.Literal.string(i) if i is not None else exp.Null() for i in array_items(text))
    return exp.Array(expressions=list(items))


def _operator(node: exp.Expression) -> None:
    name = str(node.args["operator"]).rpartition(".")[2]
    if name not in _OPERATORS:
        raise unknown_function(f"operator {name}")
    _replace(node, _OPERATORS[name](node.this.copy(), node.expression.copy()))


def _shifted(node: exp.Expression) -> None:
    """Vectors count from 0, arrays from 1."""
    node.set("expressions", [exp.Paren(this=each.copy() + 1) for each in node.expressions])


def _escaped(node: exp.Expression) -> None:
    """In PostgreSQL a backslash escapes unless the query says otherwise."""
    node.replace(exp.Escape(this=node.copy(), expression=exp.Literal.string("\\")))


def _formatted(call: exp.Expression) -> exp.Expression:
    """format('%I of %s', a, b): its parts, joined."""
    pattern, *rest = _arguments(call)
    parts: list[exp.Expression] = []
    for piece in re.split(r"(%[sIL])", pattern.name):
        if piece in ("%s", "%I", "%L") and rest:
            argument = rest.pop(0)
            call = {"%I": "quote_ident", "%L": "quote_nullable"}.get(piece, "")
            parts.append(_fn(call, [argument]) if call else argument.copy())
        elif piece:
            parts.append(exp.Literal.string(piece.replace("%%", "%")))
    return exp.Anonymous(this="concat", expressions=parts)


def _array_defaults(node: exp.Expression) -> None:
    for each in node.expressions:
        if each.is_string and each.name.startswith("{"):
            each.replace(_list(each.name))


def _with_column(alias: exp.TableAlias) -> exp.TableAlias:
    """In FROM, the column of `unnest(…) AS a` is called a too."""
    if alias.this and not alias.columns:
        alias.set("columns", [exp.to_identifier(alias.name)])
    return alias


def _side_by_side(node: exp.Expression) -> None:
    """unnest(a, b) WITH ORDINALITY: the elements of several arrays in step."""
    columns: list[exp.Expression] = [exp.Explode(this=each.copy()) for each in node.expressions]
    alias, offset = node.args["alias"], node.args.get("offset")
    if offset:
        columns.append(_fn("generate_subscripts", [node.expressions[0], exp.Literal.number(1)]))
        alias.append(
            "columns",
            offset if isinstance(offset, exp.Identifier) else exp.to_identifier("ordinality"),
        )
    node.replace(exp.Lateral(this=exp.Subquery(this=exp.select(*columns)), alias=alias))


def _named_after_itself(node: exp.Expression) -> None:
    if node.args.get("alias") is not None:
        _with_column(node.args["alias"])
