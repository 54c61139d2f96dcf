"""One row of the registry: what a function or operator is, without saying how it is called.

Themes (`numbers`, `strings`, `times`, …) list their rows with `scalar`, `aggregate` and `window`; the registry
collects them. A Spark template is a string with {0} {1} …, or a callable on the rendered and the bound arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal as Choice

from icestream.functions.expressions import Expr
from icestream.types import Type


@dataclass(frozen=True)
class TypeClass:
    """A parameter that takes several types. Equal polymorphic classes in one signature mean one type."""

    name: str

    def __str__(self) -> str:
        return self.name


ANY = TypeClass("any")  # anything, each argument for itself
ANYELEMENT = TypeClass("anyelement")  # one type for all of them (after finding the common one)
ANYARRAY = TypeClass("anyarray")  # an array whose element is ANYELEMENT
ANYMAP = TypeClass("anymap")
ANYSTRUCT = TypeClass("record")
ORDINAL = TypeClass("any type with an order")

Param = Type | TypeClass
Result = Type | Callable[[Sequence[Type]], Type]
Template = str | Callable[[Sequence[str], Sequence[Expr]], str]
Kind = Choice["scalar", "aggregate", "window"]


@dataclass(frozen=True)
class Function:
    """One overload.

    `strict`: NULL in any argument gives NULL. `fallible`: PostgreSQL may refuse a non-NULL input, and the
    template gives NULL then. `finish`: a template on the value that the other one gives, for a function whose value may also be
    NULL for another reason. `monotone`: the index of the argument in which the function never decreases, all
    others constant (watermarks pass through it). `accumulator`: what to keep to maintain an aggregate under
    inserts and deletes; None means the group is read again.
    """

    name: str
    args: tuple[Param, ...]
    result: Result
    spark: Template
    kind: Kind = "scalar"
    variadic: bool = False
    pure: bool = True
    strict: bool = True
    fallible: bool = False
    finish: str | None = None
    monotone: int | None = None
    accumulator: tuple[str, ...] | None = None
    set_returning: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.args, self.kind))

    def __str__(self) -> str:
        inner = ", ".join(str(a) for a in self.args) + ("…" if self.variadic else "")
        return f"{self.name}({inner})"

    def accepts(self, count: int) -> bool:
        """Whether it can be called with that many arguments."""
        return count >= len(self.args) if self.variadic else count == len(self.args)

    def param(self, index: int) -> Param:
        """The parameter that the argument at `index` meets."""
        return self.args[min(index, len(self.args) - 1)]


Rows = tuple[Function, ...]
