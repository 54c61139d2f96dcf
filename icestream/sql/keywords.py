"""PostgreSQL's key words by what else they may be: the name of a column, of a function, or a label without AS."""

from __future__ import annotations

RESERVED = frozenset({
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both",
    "case", "cast", "check", "collate", "column", "constraint", "create", "current_catalog",
    "current_date", "current_role", "current_time", "current_timestamp", "current_user",
    "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "false",
    "fetch", "for", "foreign", "from", "grant", "group", "having", "in", "initially",
    "intersect", "into", "lateral", "leading", "limit", "localtime", "localtimestamp", "not",
    "null", "offset", "on", "only", "or", "order", "placing", "primary", "references",
    "returning", "select", "session_user", "some", "symmetric", "table", "then", "to",
    "trailing", "true", "union", "unique", "user", "using", "variadic", "when", "where",
    "window", "with",
})  # fmt: skip
"""As the name of an object or column they must be quoted."""
FUNCTION_NAMES = frozenset({
    "AUTHORIZATION", "BINARY", "COLLATION", "CONCURRENTLY", "CROSS", "CURRENT_SCHEMA", "FREEZE", "FULL",
    "ILIKE", "INNER", "IS", "ISNULL", "JOIN", "LEFT", "LIKE", "NATURAL", "NOTNULL", "OUTER", "OVERLAPS",
    "RIGHT", "SIMILAR", "TABLESAMPLE", "VERBOSE",
})  # fmt: skip
"""They may name a function or a type, no column and no relation."""
COLUMN_NAMES = frozenset({
    "BETWEEN", "BIGINT", "BIT", "BOOLEAN", "CHAR", "CHARACTER", "COALESCE", "DEC", "DECIMAL", "EXISTS",
    "EXTRACT", "FLOAT", "GREATEST", "GROUPING", "INOUT", "INT", "INTEGER", "INTERVAL", "LEAST", "NATIONAL",
    "NCHAR", "NONE", "NORMALIZE", "NULLIF", "NUMERIC", "OUT", "OVERLAY", "POSITION", "PRECISION", "REAL",
    "ROW", "SETOF", "SMALLINT", "SUBSTRING", "TIME", "TIMESTAMP", "TREAT", "TRIM", "VALUES", "VARCHAR",
    "XMLATTRIBUTES", "XMLCONCAT", "XMLELEMENT", "XMLEXISTS", "XMLFOREST", "XMLNAMESPACES", "XMLPARSE",
    "XMLPI", "XMLROOT", "XMLSERIALIZE", "XMLTABLE",
})  # fmt: skip
"""They may name a column or a relation, no function and no type."""
NO_BARE_LABELS = frozenset({
    "ARRAY", "AS", "CHAR", "CHARACTER", "CREATE", "DAY", "EXCEPT", "FETCH", "FILTER", "FOR", "FROM", "GRANT",
    "GROUP", "HAVING", "HOUR", "INTERSECT", "INTO", "ISNULL", "LIMIT", "MINUTE", "MONTH", "NOTNULL", "OFFSET",
    "ON", "ORDER", "OVER", "OVERLAPS", "PRECISION", "RETURNING", "SECOND", "TO", "UNION", "VARYING", "WHERE",
    "WINDOW", "WITH", "WITHIN", "WITHOUT", "YEAR",
})  # fmt: skip
"""They name an item of SELECT only behind AS."""
OPERATORS = frozenset({
    "+", "-", "*", "/", "%", "^", "<", ">", "=", "<=", ">=", "<>", "!=", "||", "|", "&", "#", "~", "~*", "!~",
    "!~*", "~~", "~~*", "!~~", "!~~*", "<<", ">>", "->", "->>", "#>", "#>>", "@>", "<@", "&&", "?", "?|", "?&",
    "#-", "^@", "|/", "||/", "@", "@?", "@@", "=>",
})  # fmt: skip
"""Those that any type of ours has in PostgreSQL."""
