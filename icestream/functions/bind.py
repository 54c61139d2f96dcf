"""sqlglot's tree of an expression → a bound tree: names looked up, overloads chosen, types known, casts put in.

Pure: needs no JVM and no catalog, only the `Scope` of columns. A subquery is handed to the caller's hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.functions import literals
from icestream.functions.coercion import common_type, describe, numeric_result
from icestream.functions.conversions import PlaceOf, result_type
from icestream.functions.datatypes import bind_type, length_of, scalar_type, written
from icestream.functions.expressions import (
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    FieldAccess,
    Literal,
    Quantified,
    Row,
    Variable,
    walk,
)
from icestream.functions.groups import Groups, identifier
from icestream.functions.input_errors import TextInputError
from icestream.functions.interval_input import cut_interval, parse_interval
from icestream.functions.registry import REGISTRY
from icestream.functions.scope import Scope
from icestream.functions.strings import constant
from icestream.functions.trees import ALIASES, OPERATORS, call_of
from icestream.types import ArrayType, MapType, StructType, Type

Subquery = Callable[[exp.Expression], Expr]

_COLLATIONS = ("c", "posix", "default", "ucs_basic", "c.utf8", "c.utf-8")
_MAX_ROWS = 2000
"""Rows of (a, b) IN (…): each is a condition of its own."""
_QUANTIFIED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike)


def bind(
    tree: exp.Expression,
    scope: Scope,
    place_of: PlaceOf,
    *,
    subquery: Subquery | None = None,
    windows: Mapping[str, exp.Expression] | None = None,
) -> Expr:
    """The bound expression. `subquery` binds subqueries, `windows` are the query's WINDOW definitions."""
    binder = Binder(place_of, windows or {}, scope, subquery)
    expr = binder.visit(tree)
    return binder.coerce(expr, t.VARCHAR, tree) if expr.type == t.NULL else expr


def bind_as(
    tree: exp.Expression, target: Type, scope: Scope, place_of: PlaceOf, *, what: str = "expression"
) -> Expr:
    """The bound expression converted to `target` as an assignment does: an INSERT value, a DEFAULT, a WHERE."""
    binder = Binder(place_of, {}, scope, None)
    return binder.assign(binder.visit(tree), target, tree, what)


@dataclass(frozen=True)
class Binder(Groups):
    """One expression at a time; holds what every visit needs."""

    scope: Scope
    subquery: Subquery | None

    # -- dispatch ---------------------------------------------------------------------------------

    def visit(self, node: exp.Expression) -> Expr:
        """Bind one node. sqlglot leaves out the argument of `count()` and the like."""
        if not isinstance(node, exp.Expression):
            raise SqlError("an argument is missing", place=self.place_of(node))
        handler = _HANDLERS.get(type(node))
        if handler:
            return handler(self, node)
        if isinstance(node, _QUANTIFIED) and (quantified := self.quantified(node)):
            return quantified
        if isinstance(node, exp.Like | exp.ILike):
            return self.like(node, None)
        if isinstance(node, exp.Binary) and _is_row(node.this) and _is_row(node.expression):
            return self.rows(node)
        called = call_of(node)
        if called is None:
            raise NotSupportedError(f"the expression {written(node)}", place=self.place_of(node))
        name, args = called
        return self.function(ALIASES.get(name, name), args, node)

    def function(self, name: str, args: Sequence[exp.Expression], node: exp.Expression) -> Expr:
        """A call by name: scalar, aggregate or window function by what the registry says."""
        overloads = REGISTRY.get(name)
        if name == "row":
            return self.row(args)
        if overloads is None:
            bound = ", ".join(describe(self.visit(a).type) for a in args)
            raise SqlError(
                f"function {name}({bound}) does not exist",
                place=self.place_of(node),
                remedy=did_you_mean(name, (n for n in REGISTRY if n.isidentifier())),
            )
        if overloads[0].kind == "aggregate":
            return self.aggregate(name, args, node)
        if overloads[0].kind == "window":
            raise SqlError(
                f"window function {name} requires an OVER clause", place=self.place_of(node)
            )
        return self.call(name, [self.visit(a) for a in args], node)

    def call(self, name: str, args: Sequence[Expr], node: exp.Expression) -> Expr:
        """A scalar function on bound arguments."""
        function, coerced = self.resolve(REGISTRY[name], name, args, node)
        self.check(function, coerced, node)
        return Call(result_type(function, coerced), function, coerced)

    # -- leaves -----------------------------------------------------------------------------------

    def column(self, node: exp.Expression) -> Expr:
        """A column, or a field of a struct column written without parentheses."""
        name = identifier(node.this)
        table = node.args.get("table")
        qualifier = identifier(table) if table else None
        if qualifier and not self.scope.has_relation(qualifier):
            db = node.args.get("db")
            whole = self.scope.find(qualifier, identifier(db) if db else None)
            if len(whole) == 1 and isinstance(whole[0].type, StructType):
                return self.field_of(whole[0], name, node)
        return self.scope.resolve(name, qualifier, self.place_of(node))

    def field_of(self, arg: Expr, name: str, node: exp.Expression) -> Expr:
        """(struct).name"""
        if isinstance(arg.type, StructType):
            for f in arg.type.fields:
                if f.name == name:
                    return FieldAccess(f.type, arg, name)
            names = [f.name for f in arg.type.fields]
            message = f'column "{name}" not found in data type {describe(arg.type)}'
            raise SqlError(message, place=self.place_of(node), remedy=did_you_mean(name, names))
        message = f"column notation .{name} applied to type {describe(arg.type)}, which is not a composite type"
        raise SqlError(message, place=self.place_of(node))

    def literal(self, node: exp.Expression) -> Expr:
        """A string (untyped until its place is known) or a number."""
        if node.is_string:
            return Literal(t.NULL, str(node.this))
        try:
            return literals.number(str(node.this))
        except SqlError as error:
            place = self.place_of(node)
            raise SqlError(error.message, place=place, code=error.code) from None

    def word(self, node: exp.Expression) -> Expr:
        """A word that is no column: DEFAULT, in another place than a row of INSERT."""
        message = f"{node.name} is not allowed in this context"
        raise SqlError(message, place=self.place_of(node), code="42601")

    def interval(self, node: exp.Expression) -> Expr:
        """INTERVAL '1 day', INTERVAL '5' MINUTE"""
        unit = node.args.get("unit")
        if unit is not None and not isinstance(unit, exp.Var):
            raise NotSupportedError("an interval with a range of fields", place=self.place_of(node))
        text = node.this.name if node.this else ""
        try:
            value = parse_interval(text, unit.name if unit else "second")
        except TextInputError as error:
            shown = f'"{text} {unit.name.lower()}"' if unit else f'"{text}"'
            message = error.message.replace(f'"{text}"', shown)
            raise SqlError(message, place=self.place_of(node), code=error.code) from None
        if unit:
            value = cut_interval(value, unit.name)
        return Literal(t.INTERVAL, value)

    def ask_subquery(self, node: exp.Expression) -> Expr:
        """A subquery is the caller's."""
        if self.subquery is None:
            raise NotSupportedError("a subquery in an expression", place=self.place_of(node))
        return self.subquery(node)

    # -- forms ------------------------------------------------------------------------------------

    def cast(self, node: exp.Expression) -> Expr:
        """x::type"""
        if isinstance(node.this, exp.IntDiv):  # how sqlglot reads div(a, b)
            return self.visit(node.this)
        target = scalar_type(node.args["to"]) or bind_type(node.args["to"], self.place_of(node))
        arg, length = self.visit(node.this), length_of(node.args["to"])
        if isinstance(arg, Literal) and arg.type == t.NULL:
            adapted = self.adapt(arg, target, node)
            return Cast(target, adapted, length=length) if length is not None else adapted
        if isinstance(arg, Call) and arg.function.name == "array" and isinstance(target, ArrayType):
            items = tuple(self.convert(a, target.element, node) for a in arg.args)
            return Call(target, arg.function, items)
        if target == t.NUMERIC:  # numeric without a precision keeps every digit of a bigint
            exact = arg.type in t.INTEGERS or isinstance(arg.type, t.NumericType)
            target = numeric_result(arg.type) if exact else target
        converted = self.convert(arg, target, node)
        return Cast(target, converted, length=length) if length is not None else converted

    def case(self, node: exp.Expression) -> Expr:
        """Both forms of CASE."""
        conditions: list[Expr] = []
        for arm in node.args["ifs"]:
            if node.this is None:
                conditions.append(self.boolean(arm.this, "CASE/WHEN"))
            else:
                pair = [self.visit(node.this), self.visit(arm.this)]
                conditions.append(self.call("=", pair, arm))
        default = node.args.get("default")
        values = [self.visit(a.args["true"]) for a in node.args["ifs"]]
        values.append(self.visit(default) if default else Literal(t.NULL, None))
        *branches, last = self.unify(values, "CASE", node)
        return Case(last.type, tuple(zip(conditions, branches, strict=True)), last)

    def is_(self, node: exp.Expression, negated: bool = False) -> Expr:
        """IS [NOT] NULL | TRUE | FALSE"""
        test = node.expression
        word = "not " if negated else ""
        if isinstance(test, exp.Null):
            parts = _parts_of(self.visit(node.this))
            tests = [self.call(f"is {word}null", [part], node) for part in parts]
            out = tests[0]
            for each in tests[1:]:
                out = self.call("and", [out, each], node)
            return out
        if isinstance(test, exp.Boolean):
            arg = self.boolean(node.this, f"IS {word}{test.name}".upper())
            return self.call(f"is {word}{'true' if test.this else 'false'}", [arg], node)
        raise NotSupportedError(f"the expression {written(node)}", place=self.place_of(node))

    def not_(self, node: exp.Expression) -> Expr:
        """NOT, folded into IS NOT where that is what was written."""
        if isinstance(node.this, exp.Is):
            return self.is_(node.this, negated=True)
        return self.call("not", [self.visit(node.this)], node)

    def negative(self, node: exp.Expression) -> Expr:
        """Unary minus; of a number it is a number."""
        arg = self.visit(node.this)
        folded = literals.negated(arg) if isinstance(arg, Literal) else None
        return folded or self.call("-", [arg], node)

    def between(self, node: exp.Expression) -> Expr:
        """BETWEEN [SYMMETRIC]"""
        x, low, high = (self.visit(node.args[k]) for k in ("this", "low", "high"))
        inside = self.call(
            "and", [self.call(">=", [x, low], node), self.call("<=", [x, high], node)], node
        )
        if not node.args.get("symmetric"):
            return inside
        swapped = self.call(
            "and", [self.call(">=", [x, high], node), self.call("<=", [x, low], node)], node
        )
        return self.call("or", [inside, swapped], node)

    def in_(self, node: exp.Expression) -> Expr:
        """x IN (…): a list, or a subquery of the caller's."""
        if node.args.get("query") is not None:
            return self.ask_subquery(node)
        items = node.expressions
        if isinstance(node.this, exp.Tuple):
            if len(items) > _MAX_ROWS:
                raise SqlError(
                    f"the statement is too complex: more than {_MAX_ROWS} rows in IN",
                    place=self.place_of(node.this),
                    remedy="write (a, b) IN (SELECT * FROM (VALUES …) AS v)",
                    code="54001",
                )
            tests = [self.rows(exp.EQ(this=node.this.copy(), expression=i.copy())) for i in items]
            while len(tests) > 1:  # pairs of pairs: a chain would be nested as deeply as it is long
                pairs = zip(tests[::2], tests[1::2], strict=False)
                rest = tests[-1:] if len(tests) % 2 else []
                tests = [self.call("or", pair, node) for pair in pairs] + rest
            return tests[0]
        exprs = [self.visit(n) for n in (node.this, *items)]
        types = [e.type for e in exprs]
        if common_type(types) is None:
            other = next(x for x in types if common_type([types[0], x]) is None)
            message = f"operator does not exist: {describe(types[0])} = {describe(other)}"
            raise SqlError(message, place=self.place_of(node))
        return self.call("in", exprs, node)

    def rows(self, node: exp.Expression) -> Expr:
        """(a, b) = (c, d), column by column."""
        name = OPERATORS.get(type(node), "")
        left, right = node.this, node.expression
        if isinstance(node, exp.Overlaps):
            return self.overlaps(node)
        if name not in ("=", "<>", "<", "<=", ">", ">="):
            return self.call(name, [self.visit(left), self.visit(right)], node)
        if len(left.expressions) != len(right.expressions):
            raise SqlError(
                "unequal number of entries in row expressions", place=self.place_of(node)
            )
        pairs = [
            (self.visit(a), self.visit(b))
            for a, b in zip(left.expressions, right.expressions, strict=True)
        ]
        if name in ("=", "<>"):
            joint = "and" if name == "=" else "or"
            out = self.call(name, pairs[0], node)
            for pair in pairs[1:]:
                out = self.call(joint, [out, self.call(name, pair, node)], node)
            return out
        out = self.call(name, pairs[-1], node)
        for pair in reversed(pairs[:-1]):
            tie = self.call("and", [self.call("=", pair, node), out], node)
            out = self.call("or", [self.call(name[0], pair, node), tie], node)
        return out

    def overlaps(self, node: exp.Expression) -> Expr:
        """(a, b) OVERLAPS (c, d): the ends in any order, the second of each may be a length. NULL as in PostgreSQL."""
        points: list[Expr] = []
        for side, word in ((node.this, "left"), (node.expression, "right")):
            if len(side.expressions) != 2:
                message = f"wrong number of parameters on {word} side of OVERLAPS expression"
                raise SqlError(message, place=self.place_of(node), code="42601")
            point, other = (self.visit(each) for each in side.expressions)
            if other.type == t.INTERVAL:
                other = self.call("+", [point, other], node)
            points += [point, other]
        a, b, c, d = points = list(self.unify(points, "OVERLAPS", node))
        if a.type not in (t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ):
            message = self.missing("pg_catalog.overlaps", [p.type for p in points])
            raise SqlError(message, place=self.place_of(node), code="42883")

        def when(*arms: tuple[Expr, bool | None]) -> Expr:
            whens = tuple((test, Literal(t.BOOLEAN, value)) for test, value in arms)
            return Case(t.BOOLEAN, whens, Literal(t.BOOLEAN, None))

        def known(pair: tuple[Expr, Expr]) -> Expr:
            return self.call("and", [self.call("is not null", [p], node) for p in pair], node)

        pairs = ((a, b), (c, d))
        first, second = (self.call("least", pair, node) for pair in pairs)
        ends = [
            Case(a.type, ((known(pair), self.call("greatest", pair, node)),), Literal(a.type, None))
            for pair in pairs
        ]
        whole = self.call("and", [known(pair) for pair in pairs], node)

        def after(start: Expr, end: Expr) -> Expr:
            """What it is if `start` is the later one, and `end` that of the other."""
            return Case(
                t.BOOLEAN,
                ((self.call("<", [start, end], node), Literal(t.BOOLEAN, True)),),
                when((whole, False)),
            )

        later = self.call(">", [first, second], node)
        earlier = self.call("<", [first, second], node)
        same = self.call("=", [first, second], node)
        return Case(
            t.BOOLEAN,
            ((later, after(first, ends[1])), (earlier, after(second, ends[0]))),
            when((self.call("and", [same, whole], node), True)),
        )

    def like(self, node: exp.Expression, escape: exp.Expression | None) -> Expr:
        """[NOT] LIKE | ILIKE … [ESCAPE …]"""
        name = "~~*" if isinstance(node, exp.ILike) else "~~"
        args = [self.visit(node.this), self.visit(node.expression)]
        if escape is not None:
            args.append(self.visit(escape))
        out = self.call(name, args, node)
        if isinstance(out, Call) and constant(out.args[1]) is None:  # a column may hold wrong ones
            out = replace(out, function=replace(out.function, fallible=True))
        return self.call("not", [out], node) if node.args.get("negate") else out

    def escape(self, node: exp.Expression) -> Expr:
        """A pattern match with ESCAPE."""
        if isinstance(node.this, exp.SimilarTo):
            inner = node.this
            args = [
                self.visit(inner.this),
                self.visit(inner.expression),
                self.visit(node.expression),
            ]
            return self.call("similar to", args, node)
        return self.like(node.this, node.expression)

    def quantified(self, node: exp.Expression) -> Expr | None:
        """x op ANY (array), x op ALL (array); None if it is neither."""
        right = node.expression
        word = (
            right.name.lower() if isinstance(right, exp.Anonymous) else type(right).__name__.lower()
        )
        if word not in ("any", "some", "all") or not isinstance(
            right, exp.Any | exp.All | exp.Anonymous
        ):
            return None
        if isinstance(right, exp.Anonymous) and len(right.expressions) != 1:
            raise SqlError(f"{word.upper()} takes one array", place=self.place_of(node))
        source = right.expressions[0] if isinstance(right, exp.Anonymous) else right.this.unnest()
        if isinstance(source, exp.Query | exp.Subquery):
            return self.ask_subquery(node)
        left, array = self.visit(node.this), self.visit(source)
        if array.type == t.NULL:
            array = self.coerce(
                array, t.array(left.type if left.type != t.NULL else t.VARCHAR), node
            )
        if not isinstance(array.type, ArrayType):
            raise SqlError(
                "op ANY/ALL (array) requires array on right side", place=self.place_of(node)
            )
        depth = sum(isinstance(e, Quantified) for e in walk(left)) + 1
        element = Variable(array.type.element, f"_element{depth}_")
        names = {exp.Like: "~~", exp.ILike: "~~*"}
        condition = self.call(names.get(type(node)) or OPERATORS[type(node)], [left, element], node)
        return Quantified(t.BOOLEAN, array, element, condition, word == "all")

    def array(self, node: exp.Expression) -> Expr:
        """ARRAY[…]"""
        if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query):
            return self.ask_subquery(node)
        items = (
            self.unify([self.visit(e) for e in node.expressions], "ARRAY", node)
            if node.expressions
            else ()
        )
        element = items[0].type if items else t.VARCHAR
        return Call(t.array(element), REGISTRY["array"][0], items)

    def bracket(self, node: exp.Expression) -> Expr:
        """array[i], array[i:j], map[key], jsonb['key']"""
        base = self.visit(node.this)
        index = node.expressions[0]
        if isinstance(index, exp.Slice):
            first = self.visit(index.this) if index.this else Literal(t.INTEGER, 1)
            last = (
                self.visit(index.expression) if index.expression else Literal(t.INTEGER, 2**31 - 1)
            )
            return self.call("slice", [base, first, last], node)
        key = self.visit(index)
        if base.type == t.JSONB:
            return self.call("->", [base, key], node)
        if isinstance(base.type, MapType):
            key = self.coerce(key, base.type.key, node)
        return self.call("subscript", [base, key], node)

    def collate(self, node: exp.Expression) -> Expr:
        """x COLLATE "C": texts are always compared by their bytes, so no other collation is taken."""
        name = node.expression.name
        if name.lower() not in _COLLATIONS:
            raise NotSupportedError(
                f"the collation {name}",
                place=self.place_of(node),
                remedy='texts are compared as with COLLATE "C"',
            )
        arg = self.visit(node.this)
        if arg.type not in (t.VARCHAR, t.NULL):
            message = f"collations are not supported by type {describe(arg.type)}"
            raise SqlError(message, place=self.place_of(node), code="42804")
        return arg

    def row(self, nodes: Sequence[exp.Expression]) -> Expr:
        """ROW(…)"""
        args = [self.visit(n) for n in nodes]
        args = [
            self.coerce(a, t.VARCHAR, n) if a.type == t.NULL else a
            for a, n in zip(args, nodes, strict=True)
        ]
        fields = [(f"f{i + 1}", a.type) for i, a in enumerate(args)]
        return Row(t.struct(*fields), tuple(args))


def _parts_of(expr: Expr) -> Sequence[Expr]:
    """What IS NULL and IS NOT NULL look at: all fields of a row, else the value itself."""
    if isinstance(expr, Row):
        return expr.args or (expr,)
    if isinstance(expr.type, StructType) and expr.type.fields:
        return [FieldAccess(f.type, expr, f.name) for f in expr.type.fields]
    return (expr,)


def _is_row(node: exp.Expression) -> bool:
    return isinstance(node, exp.Tuple) or (
        isinstance(node, exp.Anonymous) and node.name.lower() == "row"
    )


_HANDLERS: dict[type[exp.Expression], Callable[[Binder, exp.Expression], Expr]] = {
    exp.Column: Binder.column,
    exp.Identifier: lambda b, n: b.scope.resolve(identifier(n), None, b.place_of(n)),
    exp.Paren: lambda b, n: b.visit(n.this),
    exp.Alias: lambda b, n: b.visit(n.this),
    exp.Literal: Binder.literal,
    exp.National: lambda b, n: Literal(t.NULL, str(n.this)),
    exp.ByteString: lambda b, n: Literal(t.NULL, str(n.this)),
    exp.RawString: lambda b, n: Literal(t.NULL, str(n.this)),
    exp.Boolean: lambda b, n: Literal(t.BOOLEAN, bool(n.this)),
    exp.Null: lambda b, n: Literal(t.NULL, None),
    exp.Interval: Binder.interval,
    exp.Var: Binder.word,
    exp.Cast: Binder.cast,
    exp.TryCast: Binder.cast,
    exp.Case: Binder.case,
    exp.Is: Binder.is_,
    exp.Not: Binder.not_,
    exp.Neg: Binder.negative,
    exp.Between: Binder.between,
    exp.In: Binder.in_,
    exp.Escape: Binder.escape,
    exp.Dot: lambda b, n: b.field_of(b.visit(n.this), identifier(n.expression), n),
    exp.Tuple: lambda b, n: b.row(n.expressions),
    exp.Array: Binder.array,
    exp.Bracket: Binder.bracket,
    exp.Collate: Binder.collate,
    exp.Filter: Binder.filter,
    exp.WithinGroup: Binder.within_group,
    exp.Window: Binder.window,
    exp.Subquery: Binder.ask_subquery,
    exp.Select: Binder.ask_subquery,
    exp.Exists: Binder.ask_subquery,
}

__all__ = ["Binder", "ColumnRef", "bind", "bind_as", "bind_type"]
