"""Arithmetic and mathematics: integers stay integers, overflow and division by zero give NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icestream import types as t
from icestream.functions.coercion import numeric_result, sum_result
from icestream.functions.expressions import Expr, Literal
from icestream.functions.function import Function, Rows, Template
from icestream.types import NumericType, Type, spark_type

LIMIT = 38
"""Digits of Spark's decimals."""
I2, I4, I8, N, F4, F8 = t.SMALLINT, t.INTEGER, t.BIGINT, t.NUMERIC, t.REAL, t.DOUBLE


def numeric(types: Sequence[Type]) -> Type:
    """The numeric type of an operation on those operands."""
    return numeric_result(*types)


def _fit(text: str, e: Sequence[Expr]) -> str:
    return f"try_cast({text} AS {spark_type(numeric_result(*(x.type for x in e)))})"


def _fitted(text: str) -> Template:
    return lambda a, e: _fit(text.format(*a), e)


def _decimal(e: Expr) -> NumericType:
    assert isinstance(e.type, NumericType)
    return e.type


def _sum(name: str) -> Rows:
    """+ and -: try_add and try_subtract."""
    symbol = "+" if name == "try_add" else "-"
    narrow = f"try_cast({name}(CAST({{0}} AS INT), CAST({{1}} AS INT)) AS SMALLINT)"
    plain = f"{name}({{0}}, {{1}})"
    return (
        Function(symbol, (I2, I2), I2, narrow, fallible=True),
        Function(symbol, (I4, I4), I4, plain, fallible=True),
        Function(symbol, (I8, I8), I8, plain, fallible=True),
        Function(
            symbol,
            (N, N),
            lambda ts: sum_result(*ts),
            lambda a, e: (
                f"try_cast({name}({a[0]}, {a[1]}) AS {spark_type(sum_result(*(x.type for x in e)))})"
            ),
            fallible=True,
        ),
        *_floats(symbol, f"({{0}} {symbol} {{1}})"),
    )


def _floats(symbol: str, text: str) -> Rows:
    """The float overloads: real only with real, as in PostgreSQL."""
    pairs = ((F4, F4), (F8, F8), (F4, F8), (F8, F4))

    def row(pair: tuple[Type, Type]) -> Function:
        single = pair == (F4, F4)
        spark = f"CAST({text} AS FLOAT)" if single else text
        return Function(symbol, pair, F4 if single else F8, spark, fallible=symbol == "/")

    return tuple(row(pair) for pair in pairs)


def _multiply(a: Sequence[str], e: Sequence[Expr]) -> str:
    x, y = _decimal(e[0]), _decimal(e[1])
    result = numeric_result(x, y)
    direct, scale = _fit(f"try_multiply({a[0]}, {a[1]})", e), x.scale + y.scale
    if x.precision + y.precision < LIMIT or scale <= result.scale:
        return direct
    split = _multiply_parts(a, x, y, result)
    return f"coalesce({direct}, {split})" if scale < LIMIT else split


def _multiply_parts(a: Sequence[str], x: NumericType, y: NumericType, result: NumericType) -> str:
    """Spark leaves too few digits before the point of a large product: multiply whole and fractional parts apart."""

    def parts(v: str, n: NumericType) -> tuple[str, str]:
        whole = f"CAST(IF({v} < 0, ceil({v}), floor({v})) AS DECIMAL({max(1, n.precision - n.scale)},0))"
        return whole, f"CAST({v} - {whole} AS DECIMAL({n.scale},{n.scale}))"

    (xw, xf), (yw, yf) = parts(a[0], x), parts(a[1], y)
    spark = spark_type(result)
    terms = [
        f"try_cast(try_multiply({p}, {q}) AS {spark})"
        for p, q in ((xw, yw), (xw, yf), (xf, yw), (xf, yf))
    ]
    total = terms[0]
    for term in terms[1:]:
        total = f"try_add({total}, {term})"
    return f"try_cast({total} AS {spark})"


def _divide(a: Sequence[str], e: Sequence[Expr]) -> str:
    scale = numeric_result(*(x.type for x in e)).scale
    x, y = (f"try_cast({v} AS DECIMAL(38,{scale}))" for v in a)
    above, below = _decimal(e[0]), _decimal(e[1])
    return divide(x, y, numeric_result(above, below), above.precision - above.scale + below.scale)


def divide(x: str, y: str, result: NumericType, digits: int) -> str:
    """A quotient of two decimals of the result's type. `digits` is how many it may have before the point.

    Spark's has 20 of them. Larger quotients have small divisors, and with a narrower divisor Spark leaves more digits
    before the point.
    """
    spark = spark_type(result)
    texts = [f"try_cast(try_divide({x}, {y}) AS {spark})"]
    if result == N and digits > 20:
        texts += [
            f"try_cast(try_divide({x}, try_cast({y} AS DECIMAL({narrow},10))) AS {spark})"
            for narrow in (18, 14, 12, 11)
        ]
    return f"coalesce({', '.join(texts)})" if len(texts) > 1 else texts[0]


def _whole_divide(spark: str) -> str:
    """Truncating division: `div` gives bigint and has no try form."""
    return f"try_cast(CAST({{0}} AS BIGINT) div nullif({{1}}, 0) AS {spark})"


_BIG_DIVIDE = "CASE WHEN {1} = -1 THEN try_subtract(0L, {0}) ELSE {0} div nullif({1}, 0L) END"


def _numeric_div(a: Sequence[str], e: Sequence[Expr]) -> str:
    result = numeric_result(*(x.type for x in e))
    x, y = (f"try_cast({v} AS DECIMAL(38,{result.scale}))" for v in a)
    above, below = _decimal(e[0]), _decimal(e[1])
    # the exact remainder first: a rounded quotient could cross a whole number
    whole = f"try_subtract({x}, try_mod({x}, {y}))"
    exact = divide(whole, y, result, above.precision - above.scale + below.scale)
    return _fit(f"round({exact})", e)


def _mod(name: str) -> Rows:
    return (
        Function(
            name,
            (I2, I2),
            I2,
            "try_cast(try_mod(CAST({0} AS INT), CAST({1} AS INT)) AS SMALLINT)",
            fallible=True,
        ),
        Function(name, (I4, I4), I4, "try_mod({0}, {1})", fallible=True),
        Function(name, (I8, I8), I8, "try_mod({0}, {1})", fallible=True),
        Function(
            name, (N, N), numeric, lambda a, e: _fit(f"try_mod({a[0]}, {a[1]})", e), fallible=True
        ),
    )


def _negate(spark: str) -> str:
    return f"try_subtract(CAST(0 AS {spark}), {{0}})"


def _round(mode: str) -> Rows:
    """ceil, floor, round, trunc on numeric and double precision."""
    to_double = {
        "ceil": "CAST(CASE WHEN {0} = 0 THEN {0} WHEN {0} > -1 AND {0} < 0 THEN -0.0D WHEN abs({0}) < 4503599627370496D THEN ceil({0}) ELSE {0} END AS DOUBLE)",
        "floor": "CAST(CASE WHEN {0} = 0 THEN {0} WHEN abs({0}) < 4503599627370496D THEN floor({0}) ELSE {0} END AS DOUBLE)",
        "round": "rint({0})",
        "trunc": "CASE WHEN abs({0}) < 4503599627370496D THEN CASE WHEN {0} < 0 OR CAST({0} AS STRING) = '-0.0' "
                 "THEN IF({0} > -1, -0.0D, CAST(ceil({0}) AS DOUBLE)) ELSE CAST(floor({0}) AS DOUBLE) END ELSE {0} END",
    }[mode]  # fmt: skip
    to_numeric = {
        "ceil": "ceil({0})",
        "floor": "floor({0})",
        "round": "round({0})",
        "trunc": "IF({0} < 0, ceil({0}), floor({0}))",
    }[mode]
    return (
        Function(mode, (F8,), F8, to_double, monotone=0),
        Function(mode, (N,), numeric, _fitted(to_numeric), monotone=0),
    )


def _at_digits(body: Callable[[str, int], str]) -> Template:
    """A rounding to n digits. Spark wants n constant, so a column n becomes a choice between all of them."""

    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        spark = spark_type(numeric_result(e[0].type))

        def at(n: int) -> str:
            return f"try_cast({body(a[0], max(-38, min(n, 38)))} AS {spark})"

        if isinstance(e[1], Literal) and isinstance(e[1].value, int):
            return at(e[1].value)
        choice = " ".join(f"WHEN {n} THEN {at(n)}" for n in range(-18, 18))
        rest = f"IF({a[1]} < 0, CAST(0 AS {spark}), {at(38)})"
        return f"CASE WHEN {a[1]} IS NULL THEN NULL ELSE CASE {a[1]} {choice} ELSE {rest} END END"

    return template


def _trunc_at(x: str, n: int) -> str:
    return f"IF({x} < 0, ceil({x}, {n}), floor({x}, {n}))"


def _sign(a: Sequence[str], e: Sequence[Expr]) -> str:
    return _fit(f"CAST(sign({a[0]}) AS INT)", e)


def _unary(name: str, text: str, monotone: int | None = None, fallible: bool = False) -> Function:
    return Function(name, (F8,), F8, text, monotone=monotone, fallible=fallible)


def _approximate(name: str, text: str, count: int = 1) -> Function:
    """A numeric overload computed in double precision: 15 digits, see the deviations."""
    return Function(
        name, (N,) * count, numeric,
        lambda a, e: f"try_cast(format_string('%.15e', {text.format(*(f'CAST({x} AS DOUBLE)' for x in a))}) AS {spark_type(numeric_result(*(x.type for x in e)))})",
        fallible=True,
    )  # fmt: skip


_LN = "IF({0} > 0, ln({0}), NULL)"
_LOG10 = "IF({0} > 0, log10({0}), NULL)"
_SQRT = "IF({0} >= 0 OR isnan({0}), sqrt({0}), NULL)"
_EXP = "IF(exp({0}) < double('Infinity') AND exp({0}) > 0 OR abs({0}) = double('Infinity') OR isnan({0}), exp({0}), NULL)"
_POWER = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {0} = 1 OR {1} = 0 THEN 1D "
    "WHEN {0} = 0 AND {1} < 0 THEN NULL WHEN {0} < 0 AND abs({1}) < double('Infinity') AND {1} <> rint({1}) THEN NULL "
    "WHEN {0} = -1 AND abs({1}) = double('Infinity') THEN 1D "
    "WHEN isnan(pow({0}, {1})) OR abs({0}) = double('Infinity') OR abs({1}) = double('Infinity') OR {0} = 0 "
    "THEN pow({0}, {1}) WHEN abs(pow({0}, {1})) = double('Infinity') OR pow({0}, {1}) = 0 THEN NULL ELSE pow({0}, {1}) END"
)
_NUMERIC_POWER = _POWER.replace(" OR pow({0}, {1}) = 0 THEN", " THEN")
_ASINH = "IF(abs({0}) < 1, sign({0}) * log1p(abs({0}) + {0} * {0} / (1 + sqrt(1 + {0} * {0}))), asinh({0}))"
_UNIT = "IF(isnan({{0}}) OR ({{0}} >= -1 AND {{0}} <= 1), {name}({{0}}), NULL)"
_FINITE = "IF(abs({{0}}) < double('Infinity') OR isnan({{0}}), {name}({{0}}), NULL)"


def _bucket(a: Sequence[str], e: Sequence[Expr]) -> str:
    x, low, high, count = a
    span = f"floor((({x} - {low}) / ({high} - {low})) * {count}) + 1"
    down = f"floor((({low} - {x}) / ({low} - {high})) * {count}) + 1"
    return (
        f"CASE WHEN {x} IS NULL OR {count} IS NULL OR {count} <= 0 OR {low} = {high} THEN NULL "
        f"WHEN isnan(CAST({x} AS DOUBLE)) THEN NULL "
        f"WHEN {low} < {high} THEN CASE WHEN {x} < {low} THEN 0 WHEN {x} >= {high} THEN {count} + 1 "
        f"ELSE CAST({span} AS INT) END "
        f"ELSE CASE WHEN {x} > {low} THEN 0 WHEN {x} <= {high} THEN {count} + 1 ELSE CAST({down} AS INT) END END"
    )


def _bits(symbol: str, text: str) -> Rows:
    return tuple(Function(symbol, (x, x), x, text) for x in (I2, I4, I8))


def _gcd(spark: str) -> str:
    """Euclid's steps over a fixed number of rounds: 93 are enough for 64 bits."""
    step = "IF(_v1.b = 0, _v1, named_struct('a', _v1.b, 'b', _v1.a % _v1.b))"
    start = "named_struct('a', CAST({0} AS BIGINT), 'b', CAST({1} AS BIGINT))"
    return (
        f"try_cast(abs(CAST(aggregate(sequence(1, 93), {start}, (_v1, _v2) -> {step}, "
        f"_v1 -> _v1.a) AS DECIMAL(20,0))) AS {spark})"
    )


ROWS: Rows = (
    *_sum("try_add"),
    *_sum("try_subtract"),
    Function("*", (I2, I2), I2, "try_cast(CAST({0} AS INT) * CAST({1} AS INT) AS SMALLINT)", fallible=True),
    Function("*", (I4, I4), I4, "try_multiply({0}, {1})", fallible=True),
    Function("*", (I8, I8), I8, "try_multiply({0}, {1})", fallible=True),
    Function("*", (N, N), numeric, _multiply, fallible=True),
    *_floats("*", "({0} * {1})"),
    Function("/", (I2, I2), I2, _whole_divide("SMALLINT"), fallible=True),
    Function("/", (I4, I4), I4, _whole_divide("INT"), fallible=True),
    Function("/", (I8, I8), I8, _BIG_DIVIDE, fallible=True),
    Function("/", (N, N), numeric, _divide, fallible=True),
    *_floats("/", "try_divide({0}, {1})"),
    *_mod("%"),
    Function("-", (I2,), I2, "try_cast(-CAST({0} AS INT) AS SMALLINT)", fallible=True),
    Function("-", (I4,), I4, _negate("INT"), fallible=True),
    Function("-", (I8,), I8, _negate("BIGINT"), fallible=True),
    Function("-", (N,), lambda ts: ts[0], "(-{0})"),
    Function("-", (F4,), F4, "(-{0})"),
    Function("-", (F8,), F8, "(-{0})"),
    Function("abs", (I2,), I2, "try_cast(abs(CAST({0} AS INT)) AS SMALLINT)", fallible=True),
    Function("abs", (I4,), I4, "try_cast(abs(CAST({0} AS BIGINT)) AS INT)", fallible=True),
    Function("abs", (I8,), I8, "IF({0} < 0, try_subtract(0L, {0}), {0})", fallible=True),
    Function("abs", (N,), lambda ts: ts[0], "abs({0})"),
    Function("abs", (F4,), F4, "abs({0})"),
    Function("abs", (F8,), F8, "abs({0})"),
    *_round("ceil"),
    *_round("floor"),
    *_round("round"),
    *_round("trunc"),
    Function("round", (N, I4), lambda ts: numeric_result(ts[0]), _at_digits(lambda x, n: f"round({x}, {n})")),
    Function("trunc", (N, I4), lambda ts: numeric_result(ts[0]), _at_digits(_trunc_at)),
    Function("div", (N, N), numeric, _numeric_div, fallible=True),
    Function("sign", (F8,), F8, "CASE WHEN {0} < 0 THEN -1D WHEN {0} > 0 AND NOT isnan({0}) THEN 1D WHEN {0} IS NOT NULL THEN 0D END", monotone=0),
    Function("sign", (N,), numeric, _sign, monotone=0),
    _unary("sqrt", _SQRT, 0, True),
    _approximate("sqrt", _SQRT),
    _unary("cbrt", "cbrt({0})", 0),
    _unary("exp", _EXP, 0, True),
    _approximate("exp", _EXP),
    _unary("ln", _LN, 0, True),
    _approximate("ln", _LN),
    _unary("log", _LOG10, 0, True),
    _approximate("log", _LOG10),
    _approximate("log", "IF({0} > 0 AND {1} > 0 AND {0} <> 1, ln({1}) / ln({0}), NULL)", 2),
    Function("power", (F8, F8), F8, _POWER, fallible=True),
    _approximate("power", _NUMERIC_POWER, 2),
    *(_unary(n, _FINITE.format(name=n), None, True) for n in ("sin", "cos", "tan", "cot")),
    *(_unary(n, _UNIT.format(name=n), None, True) for n in ("asin", "acos")),
    _unary("atan", "atan({0})", 0),
    *(_unary(n, n + "({0})") for n in ("sinh", "cosh", "tanh")),
    _unary("asinh", _ASINH, 0),
    _unary("acosh", "IF({0} >= 1 OR isnan({0}), acosh({0}), NULL)", None, True),
    _unary("atanh", "IF(isnan({0}) OR ({0} >= -1 AND {0} <= 1), atanh({0}), NULL)", None, True),
    _unary("degrees", "degrees({0})", 0),
    _unary("radians", "radians({0})", 0),
    Function("atan2", (F8, F8), F8, "atan2({0}, {1})"),
    Function("pi", (), F8, "pi()"),
    Function("random", (), F8, "rand()", pure=False),
    Function("width_bucket", (F8, F8, F8, I4), I4, _bucket, fallible=True),
    Function("width_bucket", (N, N, N, I4), I4, _bucket, fallible=True),
    *_bits("&", "({0} & {1})"),
    *_bits("|", "({0} | {1})"),
    *_bits("#", "({0} ^ {1})"),
    *(Function("~", (x,), x, "(~{0})") for x in (I2, I4, I8)),
    Function("<<", (I2, I4), I2, "CAST(shiftright(shiftleft(shiftleft(CAST({0} AS INT), {1}), 16), 16) AS SMALLINT)"),
    Function("<<", (I4, I4), I4, "shiftleft({0}, {1})"),
    Function("<<", (I8, I4), I8, "shiftleft({0}, {1})"),
    Function(">>", (I2, I4), I2, "CAST(shiftright(CAST({0} AS INT), {1}) AS SMALLINT)"),
    Function(">>", (I4, I4), I4, "shiftright({0}, {1})"),
    Function(">>", (I8, I4), I8, "shiftright({0}, {1})"),
    Function("gcd", (I4, I4), I4, _gcd("INT"), fallible=True),
    Function("gcd", (I8, I8), I8, _gcd("BIGINT"), fallible=True),
    Function("factorial", (I8,), lambda ts: t.numeric(38), "CAST(IF({0} BETWEEN 0 AND 20, factorial(CAST({0} AS INT)), NULL) AS DECIMAL(38,0))", fallible=True),
)  # fmt: skip
