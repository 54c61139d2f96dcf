"""The names that a statement may refer to, and the checks that all objects' names share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from icestream.catalog.objects import (
    DEAD_LETTER_COLUMNS,
    DEAD_LETTERS,
    Broken,
    Connector,
    MaterializedView,
    Object,
    Sink,
    Source,
    Table,
    View,
)
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.lake.metadata import METADATA, metadata_key, split_key
from icestream.plan.cut import LAYOUT
from icestream.plan.linear import relations_read
from icestream.plan.logical import Node, Scan, walk
from icestream.plan.query import Relation
from icestream.plan.stages import Known
from icestream.plan.watermarks import Closings, closings, shown_closings
from icestream.sql import statements as st

MAX_NAME = 200
"""Bytes of an object's name. Files that are made for it have longer ones, of at most 255 bytes."""
_NOT_IN_NAMES = re.compile(r"[/\\#\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Names:
    """The objects that a statement may refer to, and where values come from."""

    objects: Mapping[str, Object]
    env: Mapping[str, str]
    secrets: Callable[[st.Name], str]
    own: str = ""
    """The key of the object that is being bound."""
    reader: int | None = None
    """Its id: of columns that came after it, it sees none. None: a query, which sees all there are."""
    layout: int = LAYOUT
    """By which rules its query is cut into stages."""
    use: Callable[[Object], object] = lambda view: None
    """Told of each plain view that is read: its query takes its place, so plans do not show it."""

    def find(self, name: st.Name, *kinds: type[Object], broken: bool = False) -> Object:
        """The object of that name; the error for an unknown one suggests the nearest.

        One that cannot be built raises its own error, unless `broken` ones are welcome.
        """
        public(name)
        found = self.objects.get(name.name)
        if found is None:
            known = [o.name for o in self.objects.values() if not kinds or isinstance(o, kinds)]
            what = kinds[0].kind if len(kinds) == 1 else "relation"
            raise SqlError(
                f'{what} "{name}" does not exist',
                place=name.place,
                remedy=did_you_mean(name.name, known),
            )
        if isinstance(found, Broken) and (not kinds or found.kind in {k.kind for k in kinds}):
            if broken:
                return found
            raise found.error
        if kinds and not isinstance(found, kinds):
            raise SqlError(f'"{name}" is a {found.kind}', place=name.place)
        return found

    def relation(self, name: st.Name) -> Relation:
        """What a query may read under that name."""
        if name.schema == DEAD_LETTERS:
            fed = self.find(st.Name(name.name, None, name.place), Source, Table, Connector)
            return Relation(fed.key.dead_letters, str(name), DEAD_LETTER_COLUMNS, versions=True)
        if name.name not in self.objects and "$" in name.name:
            return self._metadata(name)
        found = self.find(name, Source, Table, View, MaterializedView)
        columns = tuple((c.name, c.type) for c in found.columns if self._sees(found, c.name))
        if isinstance(found, View):
            self.use(found)
            return Relation(found.key, found.name, columns, found.query)
        return Relation(found.key, found.name, columns, versions=in_iceberg(found))

    def _metadata(self, name: st.Name) -> Relation:
        """ "name$snapshots" and the like."""
        before, _, of = name.name.rpartition("$")
        found = self.find(
            st.Name(before, name.schema, name.place), Source, Table, MaterializedView, Sink
        )
        if of not in METADATA:
            words = ", ".join(f"${word}" for word in METADATA)
            raise SqlError(
                f'relation "{name}" does not exist',
                place=name.place,
                remedy=did_you_mean(of, METADATA) or f"the metadata of {before} is in {words}",
            )
        if not in_iceberg(found):
            raise SqlError(
                f"{found.kind} {before} is not kept in an Iceberg table, so it has no ${of}",
                place=name.place,
            )
        return Relation(metadata_key(found.key, of), name.name, METADATA[of])

    def _sees(self, object: Object, column: str) -> bool:
        return self.reader is None or object.altered.added.get(column, 0) <= self.reader

    def changing(self, node: Node) -> list[Table | MaterializedView]:
        """What a query reads whose rows may be replaced or deleted."""
        read = set(relations_read(node))
        stored = [o for o in self.objects.values() if isinstance(o, Table | MaterializedView)]
        return [o for o in stored if o.key in read and o.changing]

    def facts(self) -> dict[str, Known]:
        """What is known of everything that a query may read."""
        found: dict[str, Known] = {}
        for o in self.objects.values():
            if isinstance(o, Source | Connector):
                found[o.key] = Known(stored=False, foreign=o.ingest.connector == "iceberg")
            elif isinstance(o, Table):
                found[o.key] = Known(o.primary_key or None, not o.changing)
            elif isinstance(o, MaterializedView):
                found[o.key] = o.stages[-1].known
            if isinstance(o, Source | Table | Connector):
                found[o.key.dead_letters] = Known()
        return found

    def marks(self) -> dict[str, str | Closings]:
        """The watermark's column of everything that has one; of views over such, when their rows are final."""
        found: dict[str, str | Closings] = {}
        for object in self.objects.values():
            if isinstance(object, Source | Table) and object.watermark is not None:
                found[object.key] = object.watermark.column
            elif isinstance(object, MaterializedView):
                final = shown_closings if object.emit_on_window_close else closings
                if own := final(object.query, found):
                    found[object.key] = own
        return found

    def keys(self) -> dict[str, tuple[str, ...]]:
        """The keys of what has one."""
        return {key: known.key for key, known in self.facts().items() if known.key is not None}


def in_iceberg(object: Object) -> bool:
    """Whether its rows are in an Iceberg table."""
    if isinstance(object, Source):
        return object.ingest.connector == "iceberg"
    if isinstance(object, Sink):
        return object.connector == "iceberg"
    return isinstance(object, Table | MaterializedView)


def refuse_past(node: Node, what: str, place: Place | None) -> None:
    """What is kept up to date reads relations as they are: not as they were, and not their metadata."""
    for scan in walk(node):
        if isinstance(scan, Scan) and scan.at is not None:
            raise SqlError(
                f"{what} cannot read {scan.name} as it was: that would never change",
                place=scan.at.place,
                remedy="SELECT reads versions; INSERT INTO … SELECT keeps what it read",
            )
        if isinstance(scan, Scan) and split_key(scan.relation) is not None:
            raise NotSupportedError(
                f"{what} over {scan.name}", place=place, remedy="SELECT reads metadata"
            )


def public(name: st.Name) -> None:
    """Objects live in the schema public; another one is refused."""
    if name.schema not in (None, "public"):
        raise NotSupportedError(f"schema {name.schema!r}: objects live in public", place=name.place)


def check_new_name(name: str, place: Place | None) -> None:
    """An object's name is also that of its Iceberg table. Iceberg takes a name with a slash for a path, and `#` separates
    names from ids in keys."""
    if not name or len(name.encode()) > MAX_NAME or _NOT_IN_NAMES.search(name):
        shown = name if len(name) <= 40 else name[:40] + "…"
        raise SqlError(
            f"{shown!r} cannot be the name of an object",
            place=place,
            remedy=f"up to {MAX_NAME} bytes without /, \\, # and control characters",
            code="42602",
        )


def distinct(names: list[str], what: str, place: Place) -> None:
    """Names that an object gives its columns, each once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SqlError(
                f"column {name!r} of {what} is there twice",
                place=place,
                remedy="rename one with AS",
            )
        seen.add(name)
