"""PostgreSQL's SQL, as clients write it about the system → a sqlglot tree with folded names."""

from __future__ import annotations

from sqlglot import TokenType, exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError
from sqlglot.tokens import Token

from icestream.server.relations.errors import SystemQueryError
from icestream.server.relations.names import RESERVED


class SystemPostgres(Postgres):  # type: ignore[misc]
    """PostgreSQL where oid, name and the reg… types are names of types like others, so that `oid[]` is one too."""

    class Tokenizer(Postgres.Tokenizer):  # type: ignore[misc]
        """Words of PostgreSQL, without those types."""

        KEYWORDS = {  # noqa: RUF012
            word: type
            for word, type in Postgres.Tokenizer.KEYWORDS.items()
            if type is not TokenType.OBJECT_IDENTIFIER and word != "NAME"
        }


def parse(sql: str) -> exp.Query:
    """The tree of one query. Names without quotes are in lower case, as PostgreSQL reads them."""
    dialect = SystemPostgres()
    try:
        tree = dialect.parser().parse(_named(dialect.tokenize(sql)), sql)
    except Exception as error:  # sqlglot has no promise about odd input
        raise SystemQueryError(_first_line(error), "42601") from None
    found = [statement for statement in tree if statement is not None]
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise SystemQueryError("only one query can be asked about the system at a time", "0A000")
    for name in found[0].find_all(exp.Identifier):
        if not name.quoted:
            name.set("this", name.name.lower())
    return found[0]


_ENDS = (TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN)


def _named(tokens: list[Token]) -> list[Token]:
    """The tokens, with every word after AS a name: PostgreSQL takes even SELECT for one there."""
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        ends = after is None or after.token_type in _ENDS
        word = token.token_type is not TokenType.IDENTIFIER and token.text.lower() in RESERVED
        if before.token_type is TokenType.ALIAS and word and ends:
            token.token_type = TokenType.VAR
    return tokens


def _first_line(error: Exception) -> str:
    if isinstance(error, ParseError) and error.errors:
        near = error.errors[0].get("highlight")
        return f'syntax error at or near "{near}"' if near else "syntax error"
    return "syntax error"


_NAMES: dict[type[exp.Expression], str] = {
    exp.CurrentVersion: "version",
    exp.GroupConcat: "string_agg",
    exp.Explode: "unnest",
    exp.ArraySize: "array_length",
    exp.JSONArrayAgg: "json_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.StrPosition: "strpos",
    exp.TimeToStr: "to_char",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.GenerateSeries: "generate_series",
}


def function_name(node: exp.Expression) -> str:
    """What PostgreSQL calls the function of a call."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Trim):
        return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position"), "btrim")
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    names = type(node).sql_names() if isinstance(node, exp.Func) else [type(node).__name__]
    return str(names[0]).lower()


def type_name(type: exp.Expression) -> str:
    """What SQL calls the type of a cast, without its schema and its parameters."""
    if isinstance(type, exp.DataType):
        if type.this == exp.DataType.Type.ARRAY:
            return f"{type_name(type.expressions[0])}[]"
        if type.this == exp.DataType.Type.USERDEFINED:
            kind = type.args["kind"]
            name = kind.name if isinstance(kind, exp.Expression) else str(kind)
            if name.startswith("_"):
                return f"{name[1:]}[]"
            return name
        return str(type.sql(SystemPostgres)).split("(")[0].lower()
    return str(type.name).lower()
