"""Which parts of sqlglot's nodes the engine understands. Everything else is refused, so that no syntax is skipped.

sqlglot reads the syntax of thirty databases and stores what it reads as arguments of a node. A binder that does not look
at an argument would skip what was written. Every node of every query is checked here: an argument that has a value must be
listed, or be an expression of a function, which `functions.trees` passes on.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

_SET_OPERATION = "with_ this expression distinct order limit offset"
_UNDERSTOOD: dict[type[exp.Expr], str] = {
    # queries
    exp.Select: "with_ expressions distinct from_ joins where group having windows order limit offset qualify "
    "laterals kind operation_modifiers",  # the last four are refused with a better message by the planner
    exp.Union: _SET_OPERATION, exp.Except: _SET_OPERATION, exp.Intersect: _SET_OPERATION,
    exp.Subquery: "this alias with_ order limit offset joins",
    exp.Values: "expressions alias order limit offset",
    exp.With: "expressions recursive", exp.CTE: "this alias materialized",
    exp.From: "this", exp.Where: "this", exp.Having: "this", exp.Qualify: "this",
    exp.Group: "expressions", exp.Cube: "expressions",
    exp.Rollup: "expressions", exp.GroupingSets: "expressions", exp.Distinct: "expressions on",
    exp.Order: "this expressions session", exp.Ordered: "this desc nulls_first",
    exp.Limit: "expression limit_options", exp.Offset: "expression",
    exp.Fetch: "direction count limit_options", exp.LimitOptions: "rows with_ties percent",
    # relations
    exp.Join: "this on side kind using method",
    exp.Table: "this alias db catalog joins version only ordinality",
    exp.TableAlias: "this columns", exp.Version: "this kind expression",
    exp.Unnest: "expressions alias offset", exp.Lateral: "this alias ordinality",
    # expressions
    exp.Alias: "this alias", exp.Column: "this table db catalog", exp.Dot: "this expression",
    exp.Identifier: "this quoted", exp.Literal: "this is_string", exp.Boolean: "this", exp.Null: "",
    exp.National: "this", exp.ByteString: "this", exp.RawString: "this", exp.Var: "this",
    exp.Star: "except_ replace rename",  # refused by the planner, by name
    exp.Interval: "this unit fraction_in_string", exp.Paren: "this", exp.Tuple: "expressions",
    exp.Cast: "this to", exp.TryCast: "this to", exp.Case: "this ifs default", exp.If: "this true",
    exp.In: "this expressions query", exp.Between: "this low high symmetric",
    exp.Like: "this expression negate", exp.ILike: "this expression negate",
    exp.Escape: "this expression", exp.Is: "this expression", exp.Exists: "this",
    exp.Any: "this", exp.All: "this", exp.Array: "expressions bracket_notation",
    exp.Bracket: "this expressions", exp.Slice: "this expression",
    exp.Collate: "this expression", exp.Filter: "this expression", exp.WithinGroup: "this expression",
    exp.Window: "this partition_by order spec alias over",
    exp.WindowSpec: "kind start start_side end end_side exclude",
    exp.IgnoreNulls: "this", exp.RespectNulls: "this",
    exp.Anonymous: "this expressions partition_by", exp.AnonymousAggFunc: "this expressions",
    exp.DataType: "this expressions nested kind", exp.DataTypeParam: "this",
    exp.ObjectIdentifier: "this", exp.HexString: "this", exp.ColumnDef: "this kind", exp.JSONPath: "expressions", exp.JSONPathKey: "this",
    exp.JSONPathSubscript: "this", exp.JSONPathRoot: "",
    # functions whose arguments `functions.trees` picks by name
    exp.Pad: "this expression fill_pattern is_left", exp.Trim: "this expression position",
    exp.JSONExtract: "this expression only_json_types",
    exp.JSONExtractScalar: "this expression only_json_types",
    exp.TimeToStr: "this format", exp.ToChar: "this format", exp.StrToTime: "this format",
    exp.StrToDate: "this format", exp.TimestampTrunc: "this unit zone",
    exp.DateTrunc: "this unit zone", exp.Extract: "this expression",
    exp.DateBin: "this expression unit origin", exp.RegexpExtract: "this expression",
    exp.RegexpSubstr: "this expression",
    exp.RegexpReplace: "this expression replacement modifiers single_replace",
    exp.StrPosition: "this substr", exp.Chr: "expressions", exp.Initcap: "this expression",
    exp.RegexpLike: "this expression flag",
}  # fmt: skip
UNDERSTOOD = {node: frozenset(names.split()) for node, names in _UNDERSTOOD.items()}
FLAGS = frozenset(
    (
        "big_int",
        "coalesce",
        "ignore_nulls",
        "is_null",
        "is_nvl",
        "null_propagation",
        "safe",
        "typed",
    )
)
"""Marks that sqlglot's dialect sets on functions by itself. As expressions they would be syntax."""


def skipped_argument(node: exp.Expr) -> str | None:
    """The name of an argument that the engine would not look at, or None."""
    known = UNDERSTOOD.get(type(node))
    name: str
    for name, value in node.args.items():
        if not _has_value(value):
            continue
        if known is not None:
            if name not in known:
                return name
        elif name in FLAGS:
            if isinstance(value, exp.Expr):
                return name
        elif not _is_expression(value):
            return name
    if isinstance(node, exp.Bracket) and len(node.expressions) != 1:
        return "expressions"
    if isinstance(node, exp.Initcap) and not node.expression.name.startswith(" "):
        return "expression"  # the delimiters, if they are not those of PostgreSQL
    if isinstance(node, exp.Group) and node.args.get("all") is not None:
        return "distinct"
    return None


def _has_value(value: Any) -> bool:
    return value is not None and value is not False and value != [] and value != ""


def _is_expression(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(v, exp.Expr) for v in values)
