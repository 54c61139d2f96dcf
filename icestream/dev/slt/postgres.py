"""A session with a server that speaks PostgreSQL's protocol, through psycopg.

Statements go through the simple query protocol, so any text passes unchanged and values come as the server writes them.
Of several statements in one text the first one's rows are the answer, as in sqllogictest-rs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icestream.dev.slt.database import Answer, StatementError
from icestream.errors import ConfigError, ConnectorError

if TYPE_CHECKING:
    import psycopg

DEFAULT_URL = "postgresql://root@127.0.0.1:4566/dev"


class PostgresDatabase:
    """A `Database` over a connection of its own."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ConfigError(
                "psycopg is not installed", remedy="pip install 'icestream[test]' brings it"
            ) from error
        try:
            self._connection = psycopg.connect(
                url, autocommit=True, cursor_factory=psycopg.ClientCursor
            )
        except psycopg.Error as error:
            raise ConnectorError(f"no session with the server: {error}") from error

    def execute(self, sql: str) -> Answer:
        """Send a text as it is and wait for its answer."""
        import psycopg

        try:
            cursor = self._connection.execute(sql.encode())
        except psycopg.Error as error:
            if self._connection.closed or error.sqlstate is None:
                # Not the server's word on the statement: it is gone, or in the middle of a COPY.
                self.close()
                raise ConnectorError(f"the session is lost: {error}") from error
            raise StatementError(_message(error), error.sqlstate) from error
        result = cursor.pgresult
        assert result is not None
        columns = result.nfields
        rows = tuple(
            tuple(_text(result.get_value(row, column)) for column in range(columns))
            for row in range(result.ntuples)
        )
        return Answer(columns, rows, result.command_tuples or 0)

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _message(error: psycopg.Error) -> str:
    """The error in the words of sqllogictest-rs, which the patterns of its suites are written for."""
    told = error.diag
    parts = [f"db error: {told.severity}: {told.message_primary}"]
    parts += [f"DETAIL: {told.message_detail}"] if told.message_detail else []
    parts += [f"HINT: {told.message_hint}"] if told.message_hint else []
    return "\n".join(parts)
