"""The objects of a home in memory: what the store knows, built anew from the statements' texts."""

from __future__ import annotations

import difflib
import logging
import operator
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from icestream.catalog.bind import bind
from icestream.catalog.named_files import check_files
from icestream.catalog.names import Names, check_new_name
from icestream.catalog.objects import Broken, MaterializedView, Object, Secret, Sink
from icestream.catalog.store import Store, StoredObject
from icestream.errors import ConfigError, IcestreamError, SqlError
from icestream.file_access import FileAccess
from icestream.home_log import log_failure
from icestream.lake.pins import SnapshotPins
from icestream.plan.delta_size import check_deltas
from icestream.secrecy import HIDDEN, remember_secret
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.sql.environment import placeholders, resolve
from icestream.sql.masking import conceal, mask_text
from icestream.sql.source import Source
from icestream.sql.tokens import tokenize
from icestream.types import quote

_LOG = logging.getLogger(__name__)

SECRET_PREFIX = "icestream_secret_"


@dataclass(frozen=True)
class Change:
    """What a CREATE statement would do: nothing, add the object, or differ from the one that is there."""

    statement: st.Statement
    object: Object
    exists: bool
    difference: tuple[str, ...] = ()
    replaces: Object | None = None
    """What the new object takes the place of."""
    text: str | None = None
    """The statement as it was given, if it was rewritten."""

    @property
    def said(self) -> str:
        """The statement as it was given."""
        return self.text or self.statement.text


@dataclass(frozen=True)
class _Ahead:
    """What a statement would change, and the parts of the catalog that it was examined against."""

    next_id: int
    parts: tuple[object, ...]
    change: Change


class Catalog:
    """Names to objects. Changes go to the store first, then here."""

    def __init__(
        self,
        store: Store,
        env: Mapping[str, str] | None = None,
        access: FileAccess | None = None,
    ) -> None:
        self.store = store
        self.access = access or FileAccess.of(store.home.root, ())
        """The files that statements may name."""
        self.env = os.environ if env is None else env
        self.objects: dict[str, Object] = {}
        self.stored: dict[str, StoredObject] = {}
        self.reserved: dict[str, Object] = {}
        """Objects that are being made, and that nobody sees yet."""
        self.pins = SnapshotPins()
        """Snapshots that queries over these objects read."""
        self._secrets: Mapping[str, str] = {}
        self._know_secrets(store.secrets())
        self.next_id = store.next_id()
        self._ahead: dict[int, _Ahead] = {}
        """What was examined before its turn, by the id of the statement."""

    def load(self, objects: Iterable[StoredObject] | None = None) -> None:
        """Build all objects of the store, or those given. One that cannot be built is there as a broken one."""
        for stored in self.store.objects() if objects is None else objects:
            self.stored[stored.name] = stored
            try:
                (statement,) = parse(stored.text, stored.origin.rpartition(":")[0], self.values())
                self.objects[stored.name] = bind(statement, stored.id, self.names(), stored.altered)
            except Exception as error:
                log_failure(_LOG, "%s cannot be built from the store", stored.name)
                self.objects[stored.name] = self._broken(stored, error)
            altered = stored.altered
            used = max([stored.id, altered.redefined, *altered.added.values()])
            self.next_id = max(self.next_id, used + 1)

    def _broken(self, stored: StoredObject, error: Exception) -> Broken:
        """What stands for an object that cannot be built; one that needs another broken one has its error."""
        cause = error if isinstance(error, IcestreamError) else IcestreamError(repr(error))
        if not any(cause is b.error for b in self.broken()):
            cause = ConfigError(
                f"{stored.kind} {stored.name} of this home can no longer be understood: {cause.message}",
                object=stored.name,
                remedy=cause.remedy
                or f"set what it needs, or DROP {stored.kind.upper()} {stored.name}",
            )
            cause.__cause__ = error
        named = _references(stored.text, self.values())
        depends = tuple(o.key for o in self if o.name in named and o.id < stored.id)
        return Broken(
            stored.id, stored.name, stored.text, (), depends, cause, stored.kind,
            altered=stored.altered,
        )  # fmt: skip

    def broken(self) -> list[Broken]:
        """The objects that cannot be built, in the order of creation."""
        return [o for o in self if isinstance(o, Broken)]

    def check_access(self) -> None:
        """Raise if an object names a file that this process may not use: it was made with other directories allowed."""
        for object in self:
            check_files(object, self.access)

    def check_whole(self) -> None:
        """Raise the error of the first broken object, if there is one."""
        for found in self.broken():
            raise found.error

    def __iter__(self) -> Iterator[Object]:
        return iter(sorted(self.objects.values(), key=lambda o: o.id))

    def names(self) -> Names:
        """What statements may refer to now."""
        return Names(dict(self.objects), self.values(), self._secret)

    def values(self) -> Mapping[str, str]:
        """Where `${NAME}` is looked up: the environment, and the secrets of statements."""
        return {**self.env, **self._secrets}

    def _know_secrets(self, values: Mapping[str, str]) -> None:
        """Have these secrets, and hide them in whatever is told from now on."""
        self._secrets = values
        for value in values.values():
            remember_secret(value, keep=True)

    def _secret(self, name: st.Name) -> str:
        found = self.names().find(name, Secret)
        (statement,) = parse(found.text, "", self.values())
        assert isinstance(statement, st.CreateSecret)
        return resolve(statement.value, self.values(), name.place)

    # -- changes ---------------------------------------------------------------------------------

    def examine(self, statement: st.Statement) -> Change:
        """What a CREATE statement would change; changes nothing. Raises if it is wrong."""
        ahead = self._ahead.pop(id(statement), None)
        if (
            ahead is not None
            and ahead.next_id == self.next_id
            and _is_same(ahead.parts, self._parts())
        ):
            return ahead.change
        name = _name(statement)
        if name not in self.stored:
            check_new_name(name, statement.place)
        if (making := self.reserved.get(name)) is not None:
            raise SqlError(
                f"{making.kind} {name} is being made",
                place=statement.place,
                remedy=f"wait for it (SHOW JOBS), or CANCEL JOBS {making.id}",
            )
        object = bind(statement, self.next_id, self.names())
        check_files(object, self.access)
        present = self.stored.get(name)
        if isinstance(object, MaterializedView | Sink) and present is None:
            check_deltas(object.stages, f"{object.kind} {object.name}", statement.place)
        if present is None:
            return Change(statement, object, exists=False)
        text, _ = self._concealed(statement)
        same = _normal(text) == _normal(present.text)
        difference = () if same else _difference(present.text, text)
        return Change(statement, object, True, difference)

    @contextmanager
    def examine_ahead(self, statement: st.Statement) -> Iterator[Change]:
        """Examine a statement before its turn, which `examine` need not repeat meanwhile if nothing has changed since.

        Planning may take long, and nobody else should wait for it.
        """
        next_id, parts = self.next_id, self._parts()
        change = self.examine(statement)
        self._ahead[id(statement)] = _Ahead(next_id, parts, change)
        try:
            yield change
        finally:
            self._ahead.pop(id(statement), None)

    def _parts(self) -> tuple[object, ...]:
        """What binding depends on, part by part; a part that changes is another object."""
        return (*self.objects.values(), *self.reserved.values(), self._secrets)

    def learn(self, change: Change) -> StoredObject:
        """Know the object in memory alone: what `plan` does, and `add` before it is durable."""
        text, values = self._concealed(change.statement)
        self._know_secrets({**self._secrets, **values})
        place = change.statement.place
        stored = StoredObject(
            change.object.id, change.object.kind, change.object.name, text,
            f"{place.file}:{place.line}", time.time(), change.object.altered,
        )  # fmt: skip
        self.objects[stored.name] = change.object
        self.stored[stored.name] = stored
        self.next_id = max(self.next_id, change.object.id + 1)
        return stored

    def reserve(self, object: Object) -> None:
        """Keep the name and the id of an object that is being made."""
        self.reserved[object.name] = object
        self.next_id = max(self.next_id, object.id + 1)

    def release(self, object: Object) -> None:
        """It is made, or never will be."""
        self.reserved.pop(object.name, None)

    def forget(self, names: Iterable[str]) -> None:
        """Undo `learn`, or follow a DROP."""
        for name in names:
            del self.objects[name], self.stored[name]
            prefix = f"{secret_prefix(name)}_"
            self._secrets = {k: v for k, v in self._secrets.items() if not k.startswith(prefix)}

    def keep(self, names: Iterable[str]) -> None:
        """Make learnt objects durable."""
        self.store.keep_secrets(self._secrets)
        self.store.change(add=[self.stored[n] for n in names])

    def exchange(self, after: Catalog, learnt: str, going: Sequence[str]) -> None:
        """Have the objects of a trial, in which a learnt one has another name, and some that were there are gone."""
        id = self.stored[learnt].id
        new = next(s for s in after.stored.values() if s.id == id)
        self.store.keep_secrets(self._secrets)
        self.store.change(add=[new], remove=going)
        self.objects, self.stored = after.objects, after.stored

    def drop(self, names: Sequence[str]) -> None:
        """Forget objects for good."""
        self.store.change(remove=names)
        self.forget(names)
        self.store.keep_secrets(self._secrets)

    def renew_secrets(self, change: Change) -> bool:
        """Take over new secret values of an otherwise unchanged statement."""
        _, values = self._concealed(change.statement)
        if all(self._secrets.get(k) == v for k, v in values.items()):
            return False
        renewed = {**self._secrets, **values}
        self.store.keep_secrets(renewed)
        self._know_secrets(renewed)
        stored = self.stored[change.object.name]
        self.objects[stored.name] = bind(change.statement, stored.id, self.names(), stored.altered)
        if self.broken():
            self.load()
        return True

    def trial(self, objects: Iterable[StoredObject], secrets: Mapping[str, str]) -> Catalog:
        """A catalog of other objects, of which the store knows nothing yet."""
        made = Catalog(self.store, self.env, self.access)
        made._know_secrets({**self._secrets, **secrets})
        made.next_id = self.next_id
        made.load(sorted(objects, key=lambda o: o.id))
        return made

    def moved_secrets(self, text: str, old: str, new: str) -> tuple[str, dict[str, str]]:
        """A statement's text with its secrets under another object's name, and their values by the new names."""
        moved: dict[str, str] = {}
        for name, value in self._secrets.items():
            if name.startswith(f"{secret_prefix(old)}_"):
                other = name.replace(secret_prefix(old), secret_prefix(new), 1)
                moved[other] = value
                text = text.replace(f"${{{name}}}", f"${{{other}}}")
        return text, moved

    def become(self, other: Catalog) -> None:
        """Make the objects of a trial durable, and have them from now on. None was added or is gone."""
        before = {s.id: s for s in self.stored.values()}
        self.store.keep_secrets({**self._secrets, **other._secrets})
        changed = [s for s in other.stored.values() if s != before[s.id]]
        self.store.change(alter=changed)
        self.next_id = max(self.next_id, *(s.altered.redefined + 1 for s in other.stored.values()))
        texts = [s.text for s in other.stored.values()]
        used = {k: v for k, v in other._secrets.items() if any(f"${{{k}}}" in t for t in texts)}
        self.objects, self.stored, self._secrets = other.objects, other.stored, used
        self.store.keep_secrets(used)

    def dependents(self, object: Object) -> list[Object]:
        """What stands on an object, directly or not, in the order of creation."""
        keys = {object.key}
        found = []
        for other in self:
            if keys & set(other.depends):
                keys.add(other.key)
                found.append(other)
        return found

    def definition(self, name: str) -> str:
        """The statement that made an object, as it may be shown."""
        text = self.stored[name].text
        for key in self._secrets:
            text = text.replace(f"${{{key}}}", HIDDEN)
        return ";\n".join([mask_text(text), *_altering(self.stored[name])])

    def _concealed(self, statement: st.Statement) -> tuple[str, dict[str, str]]:
        return conceal(statement.text, secret_prefix(_name(statement)))


def _is_same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return len(before) == len(now) and all(map(operator.is_, before, now))


def _altering(stored: StoredObject) -> list[str]:
    """The statements that make an object what it is beside its text."""
    head = f"ALTER {stored.kind.upper()} {quote(stored.name)}"
    return [
        f"{head} PAUSE" if name == "paused" else f"{head} SET {name.upper()} = {value}"
        for name, value in stored.altered.settings.items()
    ]


def secret_prefix(object: str) -> str:
    """How the names of an object's secrets begin: a variable's name, no other object's prefix."""
    plain = re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):x}_", object)
    return f"{SECRET_PREFIX}{plain}_"


def _name(statement: st.Statement) -> str:
    name = getattr(statement, "name", None)
    assert isinstance(name, st.Name)
    return name.name


def _references(text: str, values: Mapping[str, str]) -> set[str]:
    """The names that a statement refers to, as far as it parses with every `${NAME}` set to something."""
    unset = {found["name"]: "unset" for found in placeholders(text)}
    try:
        (statement,) = parse(text, "", {**unset, **values})
    except IcestreamError:
        return set()
    names: set[str] = set()
    for attribute in ("from_name", "table", "into"):
        if isinstance(name := getattr(statement, attribute, None), st.Name):
            names.add(name.name)
    if isinstance(query := getattr(statement, "query", None), st.Query):
        names |= {table.name for table in query.tree.find_all(exp.Table)}
        names -= {cte.alias for cte in query.tree.find_all(exp.CTE)}
    connection = getattr(statement, "options", {}).get("connection")
    if connection is not None:
        names.add(connection.value.rpartition(".")[2])
    return names


def _tokens(text: str) -> list[str]:
    tokens = tokenize(Source.open(text, "", None)).tokens
    return [t.upper or t.kind + t.text for t in tokens if t.kind != "end"]


def _normal(text: str) -> list[str]:
    """A statement without white space, comments, case of keywords, and IF NOT EXISTS."""
    tokens = _tokens(text)
    for at in range(len(tokens) - 2):
        if tokens[at : at + 3] == ["IF", "NOT", "EXISTS"]:
            return tokens[:at] + tokens[at + 3 :]
    return tokens


def _difference(old: str, new: str) -> tuple[str, ...]:
    """The lines that differ, old ones with -, new ones with +."""
    before = [line.strip() for line in mask_text(old).splitlines() if line.strip()]
    after = [line.strip() for line in mask_text(new).splitlines() if line.strip()]
    lines = difflib.unified_diff(before, after, lineterm="", n=0)
    return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))
