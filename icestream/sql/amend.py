"""The text of a statement with one thing changed and all else as it was written: what the store keeps after an ALTER."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from icestream.errors import Place, SqlError
from icestream.sql.keywords import RESERVED
from icestream.sql.parser import parse
from icestream.sql.source import Source
from icestream.sql.statements import Name, Option, Query, Statement
from icestream.sql.tokens import Token, tokenize
from icestream.types import quote

FILE = "<amended>"
"""The file of the places in a statement that is being amended."""
WINDOWS = ("tumble", "hop", "session")


class Draft:
    """One statement, open for changes; `text` has them all."""

    def __init__(self, text: str, env: Mapping[str, str]) -> None:
        self.env = env
        self.source = Source.open(text, FILE, env)
        self.tokens = tokenize(self.source).tokens
        self.statement: Statement = parse(text, FILE, env)[0]
        self._edits: list[tuple[int, int, str]] = []
        places = (self.source.place(t.start) for t in self.tokens)
        self._at = {(p.line, p.column): i for i, p in enumerate(places)}

    @property
    def text(self) -> str:
        """The text as it is now."""
        pieces, copied = [], 0
        for start, end, new in sorted(self._edits):
            pieces += [self.source.original[copied:start], new]
            copied = end
        return "".join(pieces) + self.source.original[copied:]

    def index(self, place: Place | None) -> int:
        """The token at a place."""
        assert place is not None
        return self._at[place.line, place.column]

    def since(self, place: Place) -> str:
        """What is written from a place to the end of the statement."""
        last = len(self.tokens) - (self.tokens[-1].upper == ";")
        return self.source.written(self.tokens[self.index(place)].start, self.tokens[last - 1].end)

    def cut(self, *words: str) -> None:
        """Leave out words that stand one after the other, where they come first."""
        said = [t.upper for t in self.tokens]
        at = next(i for i in range(len(said)) if tuple(said[i : i + len(words)]) == words)
        self._cut(self.tokens[at].start, self.tokens[at + len(words)].start)

    def reread(self) -> Statement:
        """The statement of the text as it is now."""
        return parse(self.text, FILE, self.env)[0]

    # -- names -----------------------------------------------------------------------------------

    def rename(self, new: str) -> None:
        """Give the statement's object another name."""
        name = self.statement.name  # type: ignore[attr-defined]
        assert isinstance(name, Name)
        self._replace(self._name(self.index(name.place)), written(new))

    def refer(self, place: Place, old: str, new: str) -> None:
        """Name another object at a place. In a query it keeps the old name as its alias, so that columns are found."""
        at = self.index(place)
        token = self.tokens[at]
        if token.kind == "string":  # connection = 'name'
            self._replace(at, "'" + new.replace("'", "''") + "'")
            return
        last = self._name(at)
        self._replace(last, written(new))
        for query in _queries(self.statement):
            for node in query.tree.walk():
                if query.place_of(node) != place:
                    continue
                if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
                    self._alias(node, last, old)
                elif isinstance(node, exp.Column) and _window_of(node) is not None:
                    self._in_window(node, query, last, old, new)

    def _alias(self, node: exp.Table, last: int, old: str) -> None:
        if node.args.get("alias"):
            return
        if node.args.get("version"):  # … FOR SYSTEM_TIME AS OF PROCTIME()
            last = next(i for i in range(last, len(self.tokens)) if self.tokens[i].upper == ")")
        self._insert(last, f" AS {written(old)}")

    def _in_window(self, node: exp.Column, query: Query, last: int, old: str, new: str) -> None:
        """TUMBLE(old, old.time, …): its columns have the relation's name, inside and after it."""
        window = _window_of(node)
        assert window is not None
        for column in window.find_all(exp.Column):
            if column.table == old:
                self._replace(self.index(query.place_of(column)), written(new))
        if not window.args.get("alias"):
            self._insert(self._closing(last), f" AS {written(old)}")

    def _name(self, at: int) -> int:
        """The last token of [schema.]name."""
        while at + 1 < len(self.tokens) and self.tokens[at + 1].upper == ".":
            at += 2
        return at

    # -- columns ---------------------------------------------------------------------------------

    def add_column(self, definition: str) -> None:
        """Put a column behind the others."""
        items = self._items()
        last = items[-1][1]
        trailing = self.tokens[last + 1].upper == ","
        self._insert(last + trailing, f" {definition}" if trailing else f", {definition}")

    def drop_column(self, name: str) -> None:
        """Take a column out of the list."""
        columns = self.statement.columns  # type: ignore[attr-defined]
        first = next(self.index(c.place) for c in columns if c.name == name)
        items = self._items()
        number = next(i for i, item in enumerate(items) if item[0] == first)
        if number + 1 < len(items):
            self._cut(self.tokens[first].start, self.tokens[items[number + 1][0]].start)
        elif number:
            self._cut(self.tokens[items[number - 1][1]].end, self.tokens[items[number][1]].end)
        else:
            raise SqlError("the last column cannot be dropped", remedy="drop the object itself")

    def _items(self) -> list[tuple[int, int]]:
        """The first and last token of everything in the column list."""
        name = self.statement.name  # type: ignore[attr-defined]
        opening = self._name(self.index(name.place)) + 1
        if self.tokens[opening].upper != "(":
            raise SqlError("there is no list of columns to change")
        return self._list(opening)

    # -- options ---------------------------------------------------------------------------------

    def set_option(self, key: str, value: str) -> None:
        """Give an option of WITH (…) a value, as it is to be written."""
        options = self.statement.options  # type: ignore[attr-defined]
        known = options.get(key)
        if isinstance(known, Option):
            at = self.index(known.place)
            first = next(i for i in range(at, len(self.tokens)) if self.tokens[i].upper == "=") + 1
            last = first
            while self.tokens[last + 1].upper not in (",", ")"):
                last += 1
            self._edit(self.tokens[first].start, self.tokens[last].end, value)
            return
        if not options:
            raise SqlError("there is no WITH (…) to change")
        opening = self.index(next(iter(options.values())).place)
        while self.tokens[opening].upper != "(":
            opening -= 1
        self._insert(self._list(opening)[-1][1], f", {key} = {value}")

    def set_string(self, value: str) -> None:
        """Replace the last string of the statement: the value of a secret."""
        last = max(i for i, token in enumerate(self.tokens) if token.kind == "string")
        self._replace(last, "'" + value.replace("'", "''") + "'")

    # -- tokens ----------------------------------------------------------------------------------

    def _list(self, opening: int) -> list[tuple[int, int]]:
        """The first and last token of each item between brackets."""
        items: list[tuple[int, int]] = []
        depth, first, closing = 0, opening + 1, self._closing(opening)
        for at in range(opening + 1, closing + 1):
            word = self.tokens[at].upper
            if not depth and (word == "," or at == closing) and at > first:
                items.append((first, at - 1))
                first = at + 1
            depth += (word in ("(", "[", "<")) - (word in (")", "]", ">"))
        return items

    def _closing(self, at: int) -> int:
        """The bracket that closes the one at or around a token."""
        depth = int(self.tokens[at].upper != "(")
        while True:
            word = self.tokens[at].upper
            depth += (word == "(") - (word == ")")
            if not depth:
                return at
            at += 1

    def _replace(self, at: int, new: str) -> None:
        token = self.tokens[at]
        self._edit(token.start, token.end, new)

    def _insert(self, after: int, new: str) -> None:
        token: Token = self.tokens[after]
        _, end = self.source.span(token.start, token.end)
        self._edits.append((end, end, new))

    def _cut(self, start: int, end: int) -> None:
        self._edit(start, end, "")

    def _edit(self, start: int, end: int, new: str) -> None:
        self._edits.append((*self.source.span(start, end), new))


def written(name: str) -> str:
    """A name as SQL must write it."""
    return f'"{name}"' if name in RESERVED else quote(name)


def _queries(statement: Statement) -> list[Query]:
    found = getattr(statement, "query", None)
    return [found] if isinstance(found, Query) else []


def _window_of(node: exp.Column) -> exp.Table | None:
    """The TUMBLE(…) in FROM whose relation this is."""
    call = node.parent
    if isinstance(call, exp.Anonymous) and call.name in WINDOWS and call.expressions[0] is node:
        return call.parent if isinstance(call.parent, exp.Table) else None
    return None
