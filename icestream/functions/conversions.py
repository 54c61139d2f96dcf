"""Choosing an overload and converting its arguments: the part of binding that looks at types only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.functions import casts, literals
from icestream.functions.coercion import common_type, describe, is_assignable
from icestream.functions.expressions import Call, Cast, Expr, Literal
from icestream.functions.function import Function
from icestream.functions.input_errors import TextInputError
from icestream.functions.registry import REGISTRY
from icestream.functions.resolve import AmbiguousCallError, resolve
from icestream.functions.text_input import Elements, parse_array
from icestream.functions.trees import OPERATORS
from icestream.types import ArrayType, Type

PlaceOf = Callable[[exp.Expression], Place | None]

_SYMBOLS = {*OPERATORS.values(), "->", "->>", "~", "~*", "~~", "~~*"} - {"and", "or", "not"}


def result_type(function: Function, args: Sequence[Expr]) -> Type:
    """The type a call has."""
    result = function.result
    return result if isinstance(result, Type) else result([a.type for a in args])


def make_array(elements: Elements, target: ArrayType) -> Expr:
    """An array of constants."""
    inner = target.element
    items = (
        make_array(e, inner) if isinstance(inner, ArrayType) else Literal(inner, e)
        for e in elements
    )
    return Call(target, REGISTRY["array"][0], tuple(items))


@dataclass(frozen=True)
class Conversions:
    """Types in, converted expressions or PostgreSQL's errors out. `place_of` says where a node stands."""

    place_of: PlaceOf

    def check(self, function: Function, args: Sequence[Expr], node: exp.Expression) -> None:
        """Let the template look at constant arguments now: what it cannot do is an error with a place."""
        if not isinstance(function.spark, str):
            try:
                function.spark([f"`{i}`" for i in range(len(args))], args)
            except TextInputError as error:
                raise SqlError(
                    str(error), place=self.place_of(node), remedy=error.remedy, code=error.code
                ) from None
            except ValueError as error:
                raise NotSupportedError(str(error), place=self.place_of(node)) from None

    def resolve(
        self, overloads: Sequence[Function], name: str, args: Sequence[Expr], node: exp.Expression
    ) -> tuple[Function, tuple[Expr, ...]]:
        """The overload and its converted arguments, or PostgreSQL's error."""
        types = [a.type for a in args]
        try:
            found = resolve(overloads, types, name in _SYMBOLS)
        except AmbiguousCallError:
            raise SqlError(
                f"{self.signature(name, types)} is not unique",
                place=self.place_of(node),
                remedy="add explicit type casts",
            ) from None
        if found is None:
            if name in ("and", "or", "not"):
                wrong = next(x for x in types if x not in (t.BOOLEAN, t.NULL))
                message = (
                    f"argument of {name.upper()} must be type boolean, not type {describe(wrong)}"
                )
                raise SqlError(message, place=self.place_of(node))
            raise SqlError(
                self.missing(name, types),
                place=self.place_of(node),
                remedy="no overload takes these types; you may need a cast",
            )
        function, targets = found
        widened = [literals.widen(a, x) or a for a, x in zip(args, targets, strict=True)]
        if widened != list(args):
            return self.resolve(overloads, name, widened, node)
        return function, tuple(self.coerce(a, x, node) for a, x in zip(args, targets, strict=True))

    @classmethod
    def missing(cls, name: str, types: Sequence[Type]) -> str:
        """PostgreSQL's sentence for a function or operator that there is not."""
        shown = cls.signature(name, types)
        operator = shown.removeprefix("operator ")
        return (
            f"operator does not exist: {operator}"
            if name in _SYMBOLS
            else f"{shown} does not exist"
        )

    @staticmethod
    def signature(name: str, types: Sequence[Type]) -> str:
        """operator integer + boolean, or function f(integer): as messages put it."""
        shown = [describe(x) for x in types]
        if name in _SYMBOLS:
            return "operator " + (
                f"{shown[0]} {name} {shown[1]}" if len(shown) == 2 else f"{name} {shown[0]}"
            )
        return f"function {name}({', '.join(shown)})"

    def convert(self, arg: Expr, target: Type, node: exp.Expression) -> Expr:
        """A written conversion."""
        if arg.type == target:
            return arg
        if isinstance(arg, Literal) and arg.type == t.NULL:
            return self.adapt(arg, target, node)
        if not casts.is_known(arg.type, target):
            message = f"cannot cast type {describe(arg.type)} to {describe(target)}"
            raise SqlError(message, place=self.place_of(node))
        return Cast(target, arg)

    def coerce(self, expr: Expr, target: Type, node: exp.Expression) -> Expr:
        """The expression as `target`, which must be reachable implicitly."""
        if expr.type == target:
            return expr
        if isinstance(expr, Literal) and expr.type == t.NULL:
            return self.adapt(expr, target, node)
        if isinstance(expr, Literal) and (same := literals.retyped(expr, target)):
            return same
        if (
            isinstance(expr, Call)
            and expr.function.name == "array"
            and isinstance(target, ArrayType)
        ):
            items = tuple(self.coerce(a, target.element, node) for a in expr.args)
            return Call(target, expr.function, items)
        return Cast(target, expr, implicit=True)

    def adapt(self, literal: Literal, target: Type, node: exp.Expression) -> Expr:
        """An untyped literal as `target`; a text that is no value of it is an error with a place."""
        try:
            if isinstance(target, ArrayType) and isinstance(literal.value, str):
                return self.adapt_array(literal.value, target, node)
            return literals.adapt(literal, target)
        except TextInputError as error:
            raise SqlError(
                error.message, place=self.place_of(node), remedy=error.remedy, code=error.code
            ) from None

    def adapt_array(self, text: str, target: ArrayType, node: exp.Expression) -> Expr:
        """The array that a text spells."""
        if not literals.is_placeholder(text):
            return make_array(parse_array(text, target), target)
        if not text.startswith("{"):
            return Cast(target, Literal(t.VARCHAR, text))
        inner = self.adapt(Literal(t.NULL, text[1:-1]), target.element, node)
        return Call(target, REGISTRY["array"][0], (inner,))

    def assign(self, expr: Expr, target: Type, node: exp.Expression, what: str) -> Expr:
        """The expression stored in a column (or condition) of type `target`: assignment casts are allowed."""
        known = expr.type == t.NULL or casts.is_known(expr.type, target)
        if not (known and is_assignable(expr.type, target)):
            raise SqlError(
                f"{what} is of type {describe(target)} but expression is of type {describe(expr.type)}",
                place=self.place_of(node),
                remedy="rewrite or cast the expression",
                code="42804",
            )
        return self.coerce(expr, target, node)

    def unify(self, exprs: Sequence[Expr], what: str, node: exp.Expression) -> tuple[Expr, ...]:
        """The expressions as their common type."""
        types = [e.type for e in exprs]
        best = common_type(types)
        if best is None:
            first = next(x for x in types if x != t.NULL)
            other = next(x for x in types if x != t.NULL and common_type([first, x]) is None)
            message = f"{what} types {describe(first)} and {describe(other)} cannot be matched"
            raise SqlError(message, place=self.place_of(node))
        widened = [literals.widen(e, best) or e for e in exprs]
        if widened != list(exprs):
            return self.unify(widened, what, node)
        return tuple(self.coerce(e, best, node) for e in exprs)
