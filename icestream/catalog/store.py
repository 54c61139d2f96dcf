"""The durable store: which objects there are, as their statements' texts, in SQLite.

Texts are kept with `${NAME}` in place, and secret literals moved out to the secrets file, so the store
never holds a secret. Every change is one transaction, checked against the incarnation that owns the home. A statement
that was cancelled before its change changes nothing (`interrupts.commit`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from icestream import interrupts
from icestream.catalog.objects import NEVER_ALTERED, Altered
from icestream.config import Home
from icestream.errors import ConfigError, FencedError
from icestream.plan.cut import FIRST_LAYOUT

MIGRATIONS = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE objects (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        name TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL,
        origin TEXT NOT NULL,
        created REAL NOT NULL
    );
    CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    """,
    """
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, text TEXT NOT NULL, created REAL NOT NULL);
    """,
    "ALTER TABLE objects ADD COLUMN altered TEXT NOT NULL DEFAULT '{}'",
    f"UPDATE objects SET altered = json_set(altered, '$.layout', {FIRST_LAYOUT})",
)


@dataclass(frozen=True)
class StoredObject:
    """A row of the store."""

    id: int
    kind: str
    name: str
    text: str
    origin: str
    """file:line of the statement, for messages."""
    created: float
    altered: Altered = NEVER_ALTERED


class Store:
    """The store of one home. Opened by every command; changed only by the process that owns the home.

    A home that is not there is an empty store in memory until something changes: reading makes no files.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.lock = threading.RLock()
        """Held during a transaction: all threads share one connection."""
        self._owner: int | None = None
        """The incarnation that has taken the store in this process."""
        self.durable = home.store.exists()
        self._open(home.store if self.durable else ":memory:")

    def _open(self, path: Path | str) -> None:
        try:
            self.db = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self.db.execute("PRAGMA journal_mode = WAL")
            self._migrate()
        except sqlite3.DatabaseError as error:
            raise ConfigError(
                f"the store {path} cannot be opened: {error}",
                remedy="restore it from a backup, or choose another --home",
            ) from error

    def make(self) -> None:
        """Make the home, if it is not there yet. Called before anything changes."""
        if self.durable:
            return
        self.home.prepare()
        self.db.close()
        self._open(self.home.store)
        self.durable = True
        if self.objects():
            raise ConfigError(
                f"another process has made the home {self.home.root} at this very moment",
                remedy="try again",
            )

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    def _migrate(self) -> None:
        (version,) = self.db.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise ConfigError(
                f"the home {self.home.root} was written by a newer icestream (store version {version})",
                remedy="upgrade icestream",
            )
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            self.db.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")
        self.db.execute(
            "INSERT OR IGNORE INTO meta VALUES ('pipeline', ?), ('plan', '0'), ('incarnation', '0')",
            (uuid.uuid4().hex[:12],),
        )

    # -- meta ------------------------------------------------------------------------------------

    def meta(self, key: str) -> str:
        """A value of the meta table."""
        (value,) = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(value)

    @property
    def pipeline(self) -> str:
        """The pipeline's id, made with the home."""
        return self.meta("pipeline")

    @property
    def plan(self) -> int:
        """The plan version: one more with every DDL."""
        return int(self.meta("plan"))

    @property
    def paused(self) -> bool:
        """Whether PAUSE holds the pipeline."""
        return bool(self.db.execute("SELECT 1 FROM meta WHERE key = 'paused'").fetchall())

    def pause(self, paused: bool) -> None:
        """PAUSE, or RESUME."""
        interrupts.commit()
        with self._transaction():
            if paused:
                self.db.execute("INSERT OR IGNORE INTO meta VALUES ('paused', 'true')")
            else:
                self.db.execute("DELETE FROM meta WHERE key = 'paused'")

    def take(self, incarnation: int) -> None:
        """This process owns the store now."""
        self.make()
        self._owner = incarnation
        self.db.execute("UPDATE meta SET value = ? WHERE key = 'incarnation'", (str(incarnation),))

    # -- objects ---------------------------------------------------------------------------------

    def objects(self) -> list[StoredObject]:
        """All objects in the order of their creation."""
        rows = self.db.execute(
            "SELECT id, kind, name, text, origin, created, altered FROM objects ORDER BY id"
        )
        return [
            StoredObject(id, kind, name, text, origin, created, Altered(**json.loads(altered)))
            for id, kind, name, text, origin, created, altered in rows
        ]

    def next_id(self) -> int:
        """The id that the next object will get. Those of jobs are taken."""
        (used,) = self.db.execute(
            "SELECT max(n) FROM (SELECT seq AS n FROM sqlite_sequence WHERE name = 'objects' "
            "UNION ALL SELECT max(id) FROM jobs)"
        ).fetchone()
        return int(used or 0) + 1

    def change(
        self,
        add: Iterable[StoredObject] = (),
        remove: Iterable[str] = (),
        alter: Iterable[StoredObject] = (),
    ) -> int:
        """Apply a DDL in one transaction and give the new plan version. Altered objects are known by their ids."""
        interrupts.commit()
        with self._transaction():
            changed = list(alter)
            for one in changed:  # two objects may change names
                self.db.execute("UPDATE objects SET name = ? WHERE id = ?", (f"#{one.id}", one.id))
            for one in changed:
                self.db.execute(
                    "UPDATE objects SET name = ?, text = ?, altered = ? WHERE id = ?",
                    (one.name, one.text, json.dumps(asdict(one.altered)), one.id),
                )
                self.db.execute(
                    "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'objects'",
                    (one.altered.redefined,),
                )
            for name in remove:
                self.db.execute("DELETE FROM objects WHERE name = ?", (name,))
            for new in add:
                self.db.execute(
                    "INSERT INTO objects (id, kind, name, text, origin, created, altered) VALUES (?,?,?,?,?,?,?)",
                    (
                        new.id,
                        new.kind,
                        new.name,
                        new.text,
                        new.origin,
                        new.created or time.time(),
                        json.dumps(asdict(new.altered)),
                    ),
                )
            self.db.execute("UPDATE meta SET value = value + 1 WHERE key = 'plan'")
        return self.plan

    def jobs(self) -> list[tuple[int, str, float]]:
        """Statements that are being carried out in the background, with the ids of what they make."""
        return self.db.execute("SELECT id, text, created FROM jobs ORDER BY id").fetchall()

    def begin_job(self, id: int, text: str, created: float) -> None:
        """Remember a statement until it is carried out or cancelled."""
        interrupts.commit()
        with self._transaction():
            self.db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", (id, text, created))

    def end_job(self, id: int) -> None:
        """Forget it."""
        with self._transaction():
            self.db.execute("DELETE FROM jobs WHERE id = ?", (id,))

    def settings(self) -> dict[str, str]:
        """What SET has set."""
        return dict(self.db.execute("SELECT name, value FROM settings").fetchall())

    def set(self, name: str, value: str | None) -> None:
        """SET name = value, or DEFAULT."""
        interrupts.commit()
        with self._transaction():
            if value is None:
                self.db.execute("DELETE FROM settings WHERE name = ?", (name,))
            else:
                self.db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def _transaction(self) -> _Transaction:
        """A change by the incarnation that has taken the store, if one has."""
        self.make()
        return _Transaction(self, self._owner)

    # -- secrets ---------------------------------------------------------------------------------

    def secrets(self) -> dict[str, str]:
        """Secret values by name, from their own file."""
        try:
            return dict(json.loads(self.home.secrets.read_text()))
        except FileNotFoundError:
            return {}

    def keep_secrets(self, values: Mapping[str, str]) -> None:
        """Replace the secrets file, readable by the owner alone."""
        interrupts.commit()
        with self._transaction():
            temporary = self.home.secrets.with_suffix(".new")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(dict(values), file)
            os.replace(temporary, self.home.secrets)


class _Transaction:
    def __init__(self, store: Store, incarnation: int | None) -> None:
        self.store = store
        self.incarnation = incarnation

    def __enter__(self) -> None:
        self.store.lock.acquire()
        try:
            self.store.db.execute("BEGIN IMMEDIATE")
            newest = int(self.store.meta("incarnation"))
            if self.incarnation is not None and newest > self.incarnation:
                raise FencedError("another process has taken over this home; nothing was changed")
        except BaseException:
            self._roll_back()
            raise

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if not error:
                self.store.db.execute("COMMIT")
        finally:
            self._roll_back()

    def _roll_back(self) -> None:
        """Leave nothing open, whatever has failed."""
        try:
            if self.store.db.in_transaction:
                self.store.db.execute("ROLLBACK")
        finally:
            self.store.lock.release()
