"""PostgreSQL expressions, bound, typed and rendered to Spark SQL by one registry of functions.

    from icestream.functions import Scope, bind, render

    scope = Scope.of({"a": types.INTEGER, "s": types.VARCHAR})
    expr = bind(sqlglot.parse_one("a + 1", dialect=Dialect), scope, query.place_of)
    expr.type            # integer
    render(expr)         # try_add(`a`, 1)

A wrong expression is an `SqlError` with its place. What an expression does at run time never fails a
query: an operation that PostgreSQL answers with an error gives NULL for that node.
"""

from icestream.functions.bind import bind, bind_type
from icestream.functions.expressions import Expr
from icestream.functions.registry import REGISTRY
from icestream.functions.scope import Scope
from icestream.functions.spark import render

__all__ = ["REGISTRY", "Expr", "Scope", "bind", "bind_type", "render"]
