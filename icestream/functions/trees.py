"""sqlglot's nodes back to PostgreSQL's names: which function a node calls, with which arguments in which order.

sqlglot folds many functions into nodes of its own; this table undoes that. A node that is not listed here, and
that `bind` does not treat itself, is not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres

Nodes = list[exp.Expression]

OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "||",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.And: "and", exp.Or: "or", exp.Not: "not", exp.Neg: "-",
    exp.NullSafeEQ: "is not distinct from", exp.NullSafeNEQ: "is distinct from",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "#", exp.BitwiseNot: "~",
    exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>",
    exp.JSONBExtract: "#>", exp.JSONBExtractScalar: "#>>",
    exp.ArrayContainsAll: "@>", exp.ArrayContainedBy: "<@", exp.ArrayOverlaps: "&&",
    exp.JSONBContains: "?", exp.JSONBContainsTopKey: "?", exp.JSONBContainsAnyTopKeys: "?|",
    exp.JSONBContainsAllTopKeys: "?&", exp.JSONBDeleteAtPath: "#-", exp.SimilarTo: "similar to",
}  # fmt: skip

_PLAIN: dict[type[exp.Expression], str] = {
    exp.Abs: "abs", exp.Ascii: "ascii", exp.Acos: "acos", exp.Acosh: "acosh", exp.Asin: "asin",
    exp.Asinh: "asinh", exp.Atan: "atan", exp.Atanh: "atanh", exp.Atan2: "atan2", exp.Cbrt: "cbrt",
    exp.Cos: "cos", exp.Cosh: "cosh", exp.Cot: "cot", exp.Degrees: "degrees", exp.Exp: "exp",
    exp.Floor: "floor", exp.Ln: "ln", exp.Pi: "pi", exp.Pow: "power", exp.Radians: "radians",
    exp.Rand: "random", exp.Round: "round", exp.Sign: "sign", exp.Sin: "sin", exp.Sinh: "sinh",
    exp.Sqrt: "sqrt", exp.Tan: "tan", exp.Tanh: "tanh", exp.Trunc: "trunc", exp.Ceil: "ceil",
    exp.IntDiv: "div", exp.WidthBucket: "width_bucket", exp.Factorial: "factorial",
    exp.Length: "length", exp.Lower: "lower", exp.Upper: "upper", exp.MD5: "md5",
    exp.BitLength: "bit_length", exp.Left: "left", exp.Right: "right", exp.Repeat: "repeat",
    exp.Reverse: "reverse", exp.Replace: "replace", exp.Translate: "translate",
    exp.SplitPart: "split_part", exp.StartsWith: "starts_with", exp.Hex: "to_hex",
    exp.Encode: "encode", exp.Decode: "decode", exp.RegexpCount: "regexp_count",
    exp.StringToArray: "string_to_array", exp.ArrayToString: "array_to_string",
    exp.Overlay: "overlay", exp.SHA: "sha1", exp.Substring: "substring",
    exp.RegexpInstr: "regexp_instr", exp.RegexpLike: "~", exp.RegexpILike: "~*",
    exp.JustifyDays: "justify_days", exp.JustifyHours: "justify_hours",
    exp.JustifyInterval: "justify_interval", exp.UnixToTime: "to_timestamp",
    exp.TimestampFromParts: "make_timestamp", exp.TimeFromParts: "make_time",
    exp.DateFromParts: "make_date", exp.Localtimestamp: "localtimestamp",
    exp.CurrentTimestamp: "now", exp.CurrentDate: "current_date", exp.CurrentTime: "current_time",
    exp.ArrayAppend: "array_append", exp.ArrayRemove: "array_remove", exp.ArraySize: "array_length",
    exp.ArrayPosition: "array_position", exp.ArrayMax: "array_max", exp.ArrayMin: "array_min",
    exp.ArrayDistinct: "array_distinct", exp.ArrayContains: "array_contains",
    exp.ArraySum: "array_sum", exp.ArraySort: "array_sort", exp.Explode: "unnest",
    exp.Unnest: "unnest", exp.ExplodingGenerateSeries: "generate_series",
    exp.GenerateSeries: "generate_series", exp.Nullif: "nullif", exp.Mode: "mode",
    exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or", exp.ArrayAgg: "array_agg", exp.GroupConcat: "string_agg",
    exp.StddevPop: "stddev_pop", exp.StddevSamp: "stddev_samp", exp.Stddev: "stddev",
    exp.Variance: "variance", exp.VariancePop: "var_pop", exp.Corr: "corr",
    exp.CovarPop: "covar_pop", exp.CovarSamp: "covar_samp", exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc", exp.ApproxDistinct: "approx_count_distinct",
    exp.BitwiseAndAgg: "bit_and", exp.BitwiseOrAgg: "bit_or", exp.BitwiseXorAgg: "bit_xor",
    exp.JSONBObjectAgg: "jsonb_object_agg", exp.RegrSlope: "regr_slope", exp.RegrIntercept: "regr_intercept",
    exp.FirstValue: "first_value", exp.LastValue: "last_value", exp.NthValue: "nth_value",
    exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank", exp.CumeDist: "cume_dist", exp.Ntile: "ntile",
    exp.Lag: "lag", exp.Lead: "lead",
}  # fmt: skip

# other names of the same function, where the tree keeps what was written
ALIASES = {
    "ceiling": "ceil", "pow": "power", "log10": "log", "char_length": "length", "character_length": "length",
    "substr": "substring", "date_part": "extract", "current_timestamp": "now", "json_build_object": "jsonb_build_object",
    "var_samp": "variance", "nvl": "coalesce", "ifnull": "coalesce", "trim": "btrim", "position": "strpos",
}  # fmt: skip

# arguments in sqlglot's order that are not arguments of the SQL function
_NOT_ARGUMENTS = {
    "big_int",
    "null_propagation",
    "ignore_nulls",
    "safe",
    "coalesce",
    "typed",
}


def arguments(node: exp.Expression) -> Nodes:
    """The argument nodes of a function node, in the order sqlglot declares them."""
    found: Nodes = []
    for name in node.arg_types:
        value = node.args.get(name)
        if name in _NOT_ARGUMENTS:
            continue
        if isinstance(value, list):
            found.extend(v for v in value if isinstance(v, exp.Expression))
        elif isinstance(value, exp.Expression):
            found.append(value)
    return found


def _present(nodes: Iterable[exp.Expression | None]) -> Nodes:
    return [n for n in nodes if n is not None]


def _pad(node: exp.Expression) -> tuple[str, Nodes]:
    name = "lpad" if node.args.get("is_left") else "rpad"
    return name, _present((node.this, node.expression, node.args.get("fill_pattern")))


def _trim(node: exp.Expression) -> tuple[str, Nodes]:
    side = str(node.args.get("position") or "BOTH").upper()
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim")
    return name, _present((node.this, node.args.get("expression")))


def _log(node: exp.Expression) -> tuple[str, Nodes]:
    base, value = node.this, node.args.get("expression")
    if value is not None and isinstance(base, exp.Literal) and base.name == "10":
        return "log", [value]  # also what sqlglot makes of log10(x)
    return "log", _present((base, value))


def _json_step(name: str) -> Callable[[exp.Expression], tuple[str, Nodes]]:
    def call(node: exp.Expression) -> tuple[str, Nodes]:
        key = node.expression
        if isinstance(key, exp.JSONPath):
            last = key.expressions[-1]
            text = isinstance(last, exp.JSONPathKey)
            key = exp.Literal.string(last.this) if text else exp.Literal.number(last.this)
        return name, [node.this, key]

    return call


def time_format(node: exp.Expression) -> exp.Expression:
    """A format literal as it was written: sqlglot rewrites PostgreSQL's patterns to strftime's."""
    if not (isinstance(node, exp.Literal) and node.is_string):
        return node
    text, inverse = str(node.this), Postgres.INVERSE_TIME_MAPPING
    keys = sorted(inverse, key=len, reverse=True)
    out, i = "", 0
    while i < len(text):
        match = next((k for k in keys if text.startswith(k, i)), None)
        out += inverse[match] if match else text[i]
        i += len(match) if match else 1
    return exp.Literal.string(out)


def _formatted(name: str) -> Callable[[exp.Expression], tuple[str, Nodes]]:
    return lambda node: (name, [node.this, time_format(node.args["format"])])


def _truncate(node: exp.Expression) -> tuple[str, Nodes]:
    unit = exp.Literal.string(node.args["unit"].name.lower())
    return "date_trunc", _present((unit, node.this, node.args.get("zone")))


def _extract(node: exp.Expression) -> tuple[str, Nodes]:
    return "extract", [exp.Literal.string(node.this.name.lower()), node.expression]


def _bin(node: exp.Expression) -> tuple[str, Nodes]:
    origin = node.args.get("unit") or node.args.get("origin")
    if isinstance(origin, exp.Var):  # a bare column: sqlglot takes it for a unit
        origin = exp.column(origin.name.lower())
    return "date_bin", _present((node.this, node.expression, origin))


def _regexp_replace(node: exp.Expression) -> tuple[str, Nodes]:
    keys = ("this", "expression", "replacement", "modifiers")
    return "regexp_replace", _present(node.args.get(k) for k in keys)


def _sha2(node: exp.Expression) -> tuple[str, Nodes]:
    return f"sha{node.args['length'].name}", [node.this]


def _interval(node: exp.Expression) -> tuple[str, Nodes]:
    keys = ("year", "month", "week", "day", "hour", "minute", "second")
    given = [node.args.get(k) for k in keys]
    values = [v.expression if isinstance(v, exp.Kwarg) else v for v in given]
    return "make_interval", [v if v is not None else exp.Literal.number(0) for v in values]


_SPECIAL: dict[type[exp.Expression], Callable[[exp.Expression], tuple[str, Nodes]]] = {
    exp.Pad: _pad,
    exp.Trim: _trim,
    exp.Log: _log,
    exp.JSONExtract: _json_step("->"),
    exp.JSONExtractScalar: _json_step("->>"),
    exp.TimeToStr: _formatted("to_char"),
    exp.ToChar: _formatted("to_char"),
    exp.StrToTime: _formatted("to_timestamp"),
    exp.StrToDate: _formatted("to_date"),
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.Extract: _extract,
    exp.DateBin: _bin,
    exp.RegexpExtract: lambda n: ("regexp_substr", [n.this, n.expression]),
    exp.RegexpSubstr: lambda n: ("regexp_substr", [n.this, n.expression]),
    exp.RegexpReplace: _regexp_replace,
    exp.SHA2Digest: _sha2,
    exp.SHA2: _sha2,
    exp.MakeInterval: _interval,
    exp.AtTimeZone: lambda n: ("timezone", [n.args["zone"], n.this]),
    exp.StrPosition: lambda n: ("strpos", [n.this, n.args["substr"]]),
    exp.Initcap: lambda n: ("initcap", [n.this]),
    exp.Chr: lambda n: ("chr", n.expressions),
    exp.Concat: lambda n: ("concat", n.expressions),
    exp.ConcatWs: lambda n: ("concat_ws", n.expressions),
    exp.Format: lambda n: ("format", [n.this, *n.expressions]),
    exp.Coalesce: lambda n: ("coalesce", [n.this, *n.expressions]),
    exp.Greatest: lambda n: ("greatest", [n.this, *n.expressions]),
    exp.Least: lambda n: ("least", [n.this, *n.expressions]),
    exp.ArrayPrepend: lambda n: ("array_prepend", [n.expression, n.this]),
    exp.ArrayConcat: lambda n: ("array_cat", [n.this, *n.expressions]),
    exp.Array: lambda n: ("array", n.expressions),
    exp.Count: lambda n: ("count", [] if isinstance(n.this, exp.Star) else [n.this, *n.expressions]),
    exp.RegexpLike: lambda n: ("regexp_like" if n.args.get("flag") else "~", _present((n.this, n.expression, n.args.get("flag")))),
    exp.Anonymous: lambda n: (str(n.name).lower(), n.expressions),
    exp.AnonymousAggFunc: lambda n: (str(n.name).lower(), n.expressions),
}  # fmt: skip


def call_of(node: exp.Expression) -> tuple[str, Nodes] | None:
    """The PostgreSQL name and argument nodes of a function node; None if it is no known function."""
    kind = type(node)
    if kind in _SPECIAL:
        return _SPECIAL[kind](node)
    if kind in OPERATORS:
        return OPERATORS[kind], _present((node.this, node.args.get("expression")))
    if kind in _PLAIN:
        return _PLAIN[kind], arguments(node)
    return None
