"""What an expression does where PostgreSQL raises an error: it gives NULL and is counted, or it raises that error.

Templates give NULL for what PostgreSQL refuses (`Function.fallible`, casts that may fail). A guard tells such a NULL from one
that came in: the value is NULL although all inputs of the failed part are there. `RAISE` is for statements of clients,
`CountFailures` for objects that a stream must not stop for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from icestream import types as t
from icestream.functions import casts
from icestream.functions import fragments as f
from icestream.functions.arrays import LONGEST_SERIES
from icestream.functions.coercion import describe, general
from icestream.functions.expressions import Call, Cast, Expr, Literal
from icestream.functions.formats import shape
from icestream.functions.function import Function
from icestream.functions.input_errors import TextInputError, syntax_error
from icestream.functions.patterns import describe_failure, is_regex
from icestream.functions.strings import constant
from icestream.functions.text_input import parse_text
from icestream.types import ArrayType, NumericType, Type

COUNTING_FUNCTION = "icestream_failed"
"""A function of the Spark session: (number of an object, whether it failed) → NULL. It counts."""
SEPARATOR = "|"
"""Between the SQLSTATE and the message of an error that Spark raises."""
_TEXT_INPUT = "text"
"""In the place of the SQLSTATE: the type and the text follow."""
MOST_STEPS = 16
"""Operations of an expression that are looked at one by one to name the one that failed."""

Text = Callable[[Expr], str]


@dataclass(frozen=True)
class _Guard:
    def guard(self, value: str, failure: str) -> str:
        """The value, or else what happens then."""
        return f"coalesce({value}, {failure})"

    def finish(self, root: Expr, value: str) -> str:
        """The value of `root` from the guarded one."""
        return finish(root.function, value) if isinstance(root, Call) else value


@dataclass(frozen=True)
class CountFailures(_Guard):
    """Failures give NULL and are counted for an object."""

    object: int

    def handle(self, failed: str, root: Expr, text: Text) -> str:
        """See `RaiseFailures.handle`."""
        return f"{COUNTING_FUNCTION}({self.object}, {failed})"


@dataclass(frozen=True)
class RaiseFailures(_Guard):
    """Failures raise PostgreSQL's error."""

    def handle(self, failed: str, root: Expr, text: Text) -> str:
        """A text without a value, evaluated when `root` is NULL. `text` renders operations of `root`."""
        steps = [e for e in _operations(root) if is_fallible(e)]
        if len(steps) > MOST_STEPS:
            steps = [root]
        named = " ".join(f"WHEN {text(e)} IS NULL THEN {_raise(e, text)}" for e in steps[:-1])
        last = _raise(steps[-1], text)
        found = f"CASE {named} ELSE {last} END" if named else last
        return f"CASE WHEN {failed} THEN {found} END"


Failures = CountFailures | RaiseFailures
RAISE = RaiseFailures()


def is_fallible(expr: Expr) -> bool:
    """Whether the operation itself may give NULL for inputs that PostgreSQL refuses."""
    match expr:
        case Call(function=function):
            return function.fallible
        case Cast(type=target, arg=arg):
            return can_fail(arg.type, target)
    return False


def can_fail(source: Type, target: Type) -> bool:
    """Whether a value of `source` may have no equivalent in `target`."""
    a, b = general(source), general(target)
    if t.NULL in (a, b) or source == target or b == t.VARCHAR:
        return False
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return can_fail(source.element, target.element)
    if a in (t.VARCHAR, t.JSONB):
        return b != a
    if a in t.INTEGERS:
        if b in t.INTEGERS:
            return t.INTEGERS.index(a) > t.INTEGERS.index(b)
        return isinstance(target, NumericType) and target.precision - target.scale < _DIGITS[a]
    if isinstance(source, NumericType) and isinstance(target, NumericType):
        return target.precision - target.scale < source.precision - source.scale
    if isinstance(source, NumericType) or a in t.FLOATS:
        return b in t.INTEGERS or isinstance(target, NumericType) or (a, b) == (t.DOUBLE, t.REAL)
    return False


_DIGITS = {t.SMALLINT: 5, t.INTEGER: 10, t.BIGINT: 19}


def is_float_sum(expr: Expr) -> bool:
    """Whether it adds or multiplies floats, which gives an infinity where PostgreSQL raises an error."""
    return (
        isinstance(expr, Call)
        and expr.type in t.FLOATS
        and len(expr.args) == 2
        and expr.function.name in ("+", "-", "*")
    )


def is_finite(expr: Expr) -> bool:
    """Whether it is a number that is written out."""
    value = expr.value if isinstance(expr, Literal) else None
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def check_overflow(value: str, type: Type, inputs: Sequence[str], *, repeat: bool = False) -> str:
    """The value of an operation on floats; an infinity that did not come in is an error.

    `repeat`: the value may be written twice, however long it is. Spark evaluates an aggregate once.
    """
    infinity = "float('Infinity')" if type == t.REAL else "double('Infinity')"
    finite = "".join(f" AND abs({x}) < double('Infinity')" for x in inputs)
    error = f"raise_error({_out_of_range(type)})"

    def checked(v: str) -> str:
        return f"IF(abs({v}) = {infinity}{finite}, {error}, {v})"

    return checked(value) if repeat or len(value) < 200 else f.let(value, checked)


def check_missing(value: str, type: Type, expected: str) -> str:
    """The value of an operation on exact numbers, which is NULL where it does not fit; an error if there should be one."""
    return f"coalesce({value}, IF({expected}, raise_error({_out_of_range(type)}), NULL))"


def is_passing(expr: Expr) -> bool:
    """Whether it is NULL only for a NULL input or a failure: it belongs to the same guarded part as its parent."""
    if isinstance(expr, Call) and expr.function.finish is not None:
        return False
    return is_fallible(expr) or (
        isinstance(expr, Cast) and casts.is_known(expr.arg.type, expr.type)
    )


def finish(function: Function, value: str) -> str:
    """What the function makes of the value of its template."""
    made = function.finish
    return value if made is None else f.let(value, lambda v: made.format(v))


def leaves_of(root: Expr) -> tuple[Expr, ...]:
    """The inputs of the guarded part below and at `root`, each once."""
    found: dict[Expr, None] = {}

    def collect(expr: Expr) -> None:
        for child in expr.children():
            if is_passing(child):
                collect(child)
            else:
                found[child] = None

    collect(root)
    return tuple(found)


def guard(root: Expr, leaves: Sequence[str], text: Text, failures: Failures) -> str:
    """The value of `root`, whose failure is handled. `leaves` are the texts of its inputs."""
    exprs = leaves_of(root)
    checked = [
        f"{leaf} IS NOT NULL"
        for expr, leaf in zip(exprs, leaves, strict=True)
        if not (isinstance(expr, Literal) and expr.value is not None)
    ]
    if isinstance(root, Cast) and isinstance(root.type, ArrayType):
        return _guard_elements(root, text, failures)
    failed = " AND ".join(checked) or "TRUE"
    return failures.guard(text(root), failures.handle(failed, root, text))


def _guard_elements(root: Cast, text: Text, failures: Failures) -> str:
    """An array some of whose elements were not converted."""

    def guarded(args: Sequence[str]) -> str:
        before, after = args
        lost = f"{_count_nulls(after)} > {_count_nulls(before)}"
        return f"coalesce({failures.handle(lost, root, text)}, {after})"

    return f.once((text(root.arg), text(root)), guarded)


def _count_nulls(array: str) -> str:
    return f"size(filter({array}, _e0 -> _e0 IS NULL))"


def _operations(root: Expr) -> Iterator[Expr]:
    """The operations of a guarded part, inputs first."""
    for child in root.children():
        if is_passing(child):
            yield from _operations(child)
    yield root


def _raise(expr: Expr, text: Text) -> str:
    args = [text(child) for child in expr.children()]
    return f"raise_error({f.once(args, lambda a: _describe(expr, a))})"


# -- PostgreSQL's messages ----------------------------------------------------------------------


def _error(code: str, message: str, value: str | None = None) -> str:
    """The text of an error; `value` is shown in quotes behind the message."""
    start = f.string(f"{code}{SEPARATOR}{message}")
    return start if value is None else f"concat({start[:-1]}: \"', left({value}, {_SHOWN}), '\"')"


def _describe(expr: Expr, args: Sequence[str]) -> str:
    match expr:
        case Cast(type=target, arg=arg):
            return _describe_cast(arg.type, target, args[0])
        case Call(function=function, args=operands):
            name = function.name
            if name in ("/", "%", "div") and len(args) == 2:
                return _describe_division(expr.type, operands[1], args[1])
            if name == "-" and expr.type == t.JSONB:
                return _error(
                    "22023", "cannot delete from scalar, or from object using integer index"
                )
            if name in ("to_timestamp", "to_date") and len(args) == 2:
                return _describe_parsing(args[0], constant(operands[1]) or "")
            if name == "to_timestamp" and len(args) == 1:
                return _out_of_range(expr.type)
            if is_regex(name, operands):
                problem = describe_failure(name, args, operands)
                return f"concat('2201B{SEPARATOR}', {problem})"
            if name in _CASES:
                return _CASES[name](args)
            if name in _NAMED:
                return _error(*_NAMED[name])
    return _out_of_range(expr.type)


def _out_of_range(type: Type) -> str:
    if type in (t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.INTERVAL):
        name = "timestamp" if type == t.TIMESTAMPTZ else str(type)
        return _error("22008", f"{name} out of range")
    if isinstance(type, NumericType):
        return _error("22003", "numeric field overflow")
    if type in t.FLOATS:
        return _error("22003", "value out of range: overflow")
    return _error("22003", f"{describe(type)} out of range")


def _describe_division(result: Type, divisor: Expr, text: str) -> str:
    if general(divisor.type) == t.INTERVAL:
        return _out_of_range(result)
    zero = _error("22012", "division by zero")
    return f"IF({text} = 0, {zero}, {_out_of_range(result)})"


NO_KEY = f"raise_error('22023{SEPARATOR}field name must not be null')"
"""In the place of a key of an object that is NULL."""
_DECIMAL = r"(?i)^[+-]?(\d++\.?\d*+|\.\d++)(e[+-]?\d++)?$"
_SHOWN = 1000
"""Characters of a text that its error has."""


def _describe_cast(source: Type, target: Type, x: str) -> str:
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return _describe_element(source.element, target.element, x)
    if source == t.JSONB:
        wrong = _error("22023", f"cannot cast jsonb value to type {describe(target)}", x)
        if target == t.BOOLEAN:
            return wrong
        return f"IF({x} RLIKE {f.string(_DECIMAL)}, {_out_of_range(target)}, {wrong})"
    if source == t.VARCHAR:
        return describe_text(target, x)
    if source in t.FLOATS and isinstance(target, NumericType):
        nothing = _error("22003", "numeric has no NaN and no infinity")
        return f"IF(abs({x}) < double('Infinity'), {_out_of_range(target)}, {nothing})"
    return _out_of_range(target)


def _describe_element(source: Type, target: Type, array: str) -> str:
    """The error of the first element that was not converted."""

    def is_lost(element: str) -> str:
        return f"{element} IS NOT NULL AND {casts.convert(element, source, target)} IS NULL"

    lost = f"get({f.each(array, is_lost, 'filter')}, 0)"
    return f.let(lost, lambda x: _describe_cast(source, target, x))


def describe_text(target: Type, x: str) -> str:
    """The text of an error about a text that is no value of the type. `read_error` finds out why."""
    return (
        f"concat({f.string(f'{_TEXT_INPUT}{SEPARATOR}{target}{SEPARATOR}')}, left({x}, {_SHOWN}))"
    )


def read_error(raised: str) -> TextInputError:
    """PostgreSQL's error from what an expression raised in Spark."""
    code, _, message = raised.partition(SEPARATOR)
    if code != _TEXT_INPUT:
        return TextInputError(code, message)
    name, _, text = message.partition(SEPARATOR)
    precision = re.fullmatch(r"numeric\((\d+),(\d+)\)", name)
    target = t.numeric(int(precision[1]), int(precision[2])) if precision else t.scalar(name)
    assert target is not None, name
    try:
        parse_text(text, target)
    except TextInputError as error:
        return error
    # A form that only constants have, or a text of which the error has the beginning.
    moment = target in (t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.INTERVAL)
    return syntax_error(describe(target), text, "22007" if moment else "22P02")


_NAMED = {
    "one row": ("21000", "more than one row returned by a subquery used as an expression"),
    "~~": ("22025", "LIKE pattern must not end with escape character"),
    "~~*": ("22025", "LIKE pattern must not end with escape character"),
    "sin": ("22003", "input is out of range"),
    "cos": ("22003", "input is out of range"),
    "tan": ("22003", "input is out of range"),
    "cot": ("22003", "input is out of range"),
    "asin": ("22003", "input is out of range"),
    "acos": ("22003", "input is out of range"),
    "acosh": ("22003", "input is out of range"),
    "atanh": ("22003", "input is out of range"),
    "sqrt": ("2201F", "cannot take square root of a negative number"),
    "width_bucket": ("2201G", "the count must be greater than zero, and the bounds must differ"),
    "substring": ("22011", "negative substring length not allowed"),
    "overlay": ("22011", "negative substring length not allowed"),
    "split_part": ("22023", "field position must not be zero"),
    "decode": ("22023", "the text is not in that encoding"),
    "date_trunc": ("22023", "time zone not recognized"),
    "timezone": ("22023", "time zone not recognized"),
    "make_date": ("22008", "date field value out of range"),
    "make_time": ("22008", "time field value out of range"),
    "make_timestamp": ("22008", "date/time field value out of range"),
    "make_timestamptz": ("22008", "date/time field value out of range"),
    "factorial": ("22003", "value overflows numeric format"),
    "to_timestamp": ("22007", "the text does not match the format"),
    "to_date": ("22007", "the text does not match the format"),
    "repeat": ("54000", "requested length too large"),
    "lpad": ("54000", "requested length too large"),
    "rpad": ("54000", "requested length too large"),
    "trim_array": ("2202E", "number of elements to trim must be between 0 and the array's length"),
    "jsonb_array_length": ("22023", "cannot get array length of a non-array"),
}


def _describe_parsing(text: str, pattern: str) -> str:
    """A text that looks as its format says has a field that is out of range."""
    far = _error("22008", "date/time field value out of range", text)
    return f"IF({text} RLIKE {f.string(shape(pattern))}, {far}, {_error(*_NAMED['to_date'])})"


def _describe_logarithm(args: Sequence[str]) -> str:
    zero = _error("2201E", "cannot take logarithm of zero")
    negative = _error("2201E", "cannot take logarithm of a negative number")
    tests = " OR ".join(f"{a} = 0" for a in args)
    by_one = f"WHEN {args[0]} = 1 THEN {_error('22012', 'division by zero')} " if args[1:] else ""
    below = " OR ".join(f"{a} < 0" for a in args)
    return f"CASE WHEN {tests} THEN {zero} WHEN {below} THEN {negative} {by_one}ELSE {zero} END"


def _describe_power(args: Sequence[str]) -> str:
    base, exponent = args
    zero = _error("2201F", "zero raised to a negative power is undefined")
    root = _error(
        "2201F", "a negative number raised to a non-integer power yields a complex result"
    )
    far = _error("22003", "value out of range: overflow")
    return (
        f"CASE WHEN {base} = 0 AND {exponent} < 0 THEN {zero} "
        f"WHEN {base} < 0 AND {exponent} <> rint({exponent}) THEN {root} ELSE {far} END"
    )


def _describe_character(args: Sequence[str]) -> str:
    negative = _error("22023", "character number must be positive")
    return f"IF({args[0]} < 0, {negative}, {_error('54000', 'requested character not valid for encoding')})"


def _describe_bin(args: Sequence[str]) -> str:
    months = _error(
        "0A000", "timestamps cannot be binned into intervals containing months or years"
    )
    positive = _error("22008", "stride must be greater than zero")
    return f"IF({args[0]}.months <> 0, {months}, {positive})"


def _describe_series(args: Sequence[str]) -> str:
    long = _error("54000", f"generate_series of more than {LONGEST_SERIES} rows")
    zero = _error("22023", "step size cannot equal zero")
    if len(args) < 3:
        return long
    return f"IF(CAST({args[2]} AS STRING) IN ('0', {_NO_TIME}), {zero}, {long})"


_NO_TIME = "CAST(named_struct('months', 0, 'days', 0, 'microseconds', 0L) AS STRING)"


_CASES: dict[str, Callable[[Sequence[str]], str]] = {
    "chr": _describe_character,
    "date_bin": _describe_bin,
    "generate_series": _describe_series,
    "ln": _describe_logarithm,
    "log": _describe_logarithm,
    "power": _describe_power,
}
