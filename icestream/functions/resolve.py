"""Overload resolution, as PostgreSQL does it: exact match, then fewest conversions, then preferred types.

In comes a name with the types of its arguments, out goes one `Function` with the type that each argument must be
converted to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from icestream import types as t
from icestream.errors import SignalError
from icestream.functions.coercion import (
    as_numeric,
    category,
    common_type,
    general,
    is_implicit,
    is_preferred,
)
from icestream.functions.function import (
    ANY,
    ANYARRAY,
    ANYELEMENT,
    ANYMAP,
    ANYSTRUCT,
    Function,
    Param,
    TypeClass,
)
from icestream.types import ArrayType, MapType, NumericType, StructType, Type

Candidate = tuple[Function, tuple[Type, ...]]


class AmbiguousCallError(SignalError):
    """Several overloads fit equally well."""


def resolve(
    overloads: Sequence[Function], args: Sequence[Type], operator: bool
) -> Candidate | None:
    """The overload to call and the types its arguments take; None if none fits."""
    return _resolve(_Overloads(overloads), tuple(args), operator)


class _Overloads:
    """The overloads of a name, known by their identity: the registry does not change."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.functions = functions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Overloads) and other.functions is self.functions

    def __hash__(self) -> int:
        return id(self.functions)


@lru_cache(maxsize=4096)  # a CASE of 20,000 arms compares the same types 20,000 times
def _resolve(found: _Overloads, args: tuple[Type, ...], operator: bool) -> Candidate | None:
    overloads = found.functions
    fitting = [(f, p) for f in overloads if (p := _fit(f, args)) is not None]
    exact = [c for c in fitting if _exact(c, args) == len(args)]
    if exact:
        return exact[0]
    if (
        operator
        and len(args) == 2
        and t.NULL in args
        and (known := [a for a in args if a != t.NULL])
    ):
        same = [known[0], known[0]]
        for f in overloads:
            params = _fit(f, same)
            if params is not None and _exact((f, params), same) == 2:
                return f, params
    return _narrow(fitting, args)


def _narrow(fitting: list[Candidate], args: Sequence[Type]) -> Candidate | None:
    if len(fitting) <= 1:
        return fitting[0] if fitting else None
    concrete = [c for c in fitting if not any(isinstance(p, TypeClass) for p in c[0].args)]
    rest = _best(concrete or fitting, lambda c: _exact(c, args))
    rest = _best(rest, lambda c: _preferred(c, args))
    unknown = [i for i, a in enumerate(args) if a == t.NULL]
    for i in unknown if len(rest) > 1 else ():
        kinds = {category(p[i]) for _, p in rest}
        kind = "string" if "string" in kinds else (kinds.pop() if len(kinds) == 1 else None)
        if kind is None:
            continue
        rest = [c for c in rest if category(c[1][i]) == kind]
        favourite = [c for c in rest if is_preferred(c[1][i])]
        rest = favourite or rest
    if (
        len(rest) > 1 and unknown
    ):  # last resort: unknown arguments are of the type the known ones share
        known = {general(a) for a in args if a != t.NULL}
        if len(known) == 1:
            assumed = [known.copy().pop() if a == t.NULL else a for a in args]
            rest = [c for c in rest if _exact(c, assumed) == len(args)] or rest
    if len(rest) > 1:
        raise AmbiguousCallError
    return rest[0]


def _best(candidates: list[Candidate], score: Callable[[Candidate], int]) -> list[Candidate]:
    top = max(score(c) for c in candidates)
    return [c for c in candidates if score(c) == top]


def _exact(candidate: Candidate, args: Sequence[Type]) -> int:
    return sum(
        a != t.NULL and general(a) == general(p) for a, p in zip(args, candidate[1], strict=True)
    )


def _preferred(candidate: Candidate, args: Sequence[Type]) -> int:
    pairs = zip(args, candidate[1], strict=True)
    return sum(a != t.NULL and (general(a) == general(p) or is_preferred(p)) for a, p in pairs)


def _fit(function: Function, args: Sequence[Type]) -> tuple[Type, ...] | None:
    """The concrete parameter types for those arguments, or None if an argument cannot be converted."""
    if not function.accepts(len(args)):
        return None
    params = [function.param(i) for i in range(len(args))]
    element = _element(params, args)
    if element is None:
        return None
    out: list[Type] = []
    for param, arg in zip(params, args, strict=True):
        target = _target(param, arg, element)
        if target is None or not is_implicit(arg, target):
            return None
        out.append(target)
    return tuple(out)


def _element(params: Sequence[Param], args: Sequence[Type]) -> Type | None:
    """What ANYELEMENT stands for; `unknown` where the signature has none."""
    seen: list[Type] = []
    for param, arg in zip(params, args, strict=True):
        if param is ANYELEMENT:
            seen.append(arg)
        elif param is ANYARRAY and isinstance(arg, ArrayType):
            seen.append(arg.element)
        elif param is ANYARRAY and arg != t.NULL:
            return None
    return common_type(seen) if seen else t.NULL


def _target(param: Param, arg: Type, element: Type) -> Type | None:
    if isinstance(param, Type):
        if isinstance(param, NumericType) and arg != t.NULL:
            return as_numeric(arg) if is_implicit(arg, t.NUMERIC) else None
        return param
    if param is ANY:
        return t.VARCHAR if arg == t.NULL else arg
    if param is ANYELEMENT:
        return element
    if param is ANYARRAY:
        return t.array(element)
    if param is ANYMAP:
        return arg if isinstance(arg, MapType) else None
    if param is ANYSTRUCT:
        return arg if isinstance(arg, StructType) else None
    return None
