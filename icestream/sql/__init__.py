"""Text → statements: the SQL front end. No Spark, no I/O.

`parse` gives the frozen statements of `sql.statements` and `sql.session_statements`; `sql.options` checks and types their options;
`sql.environment` resolves `${NAME}`; `mask` gives a statement's text without the secrets in it.
"""

from icestream.sql.masking import mask
from icestream.sql.parser import parse, parse_client_text, split

__all__ = ["mask", "parse", "parse_client_text", "split"]
