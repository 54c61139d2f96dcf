"""Which tables that statements fill an object is made of, directly or through views and sinks."""

from __future__ import annotations

from collections.abc import Iterable

from icestream.catalog.objects import Object, Sink, Table
from icestream.connectors import dml
from icestream.identity import ObjectKey


def is_filled_by_statements(object: Object) -> bool:
    """Whether INSERT, UPDATE and DELETE fill the table."""
    return isinstance(object, Table) and object.ingest.connector == dml.NAME


def statement_tables(objects: Iterable[Object], keys: Iterable[str]) -> set[str]:
    """The keys of all tables filled by statements that these objects are made of, themselves among them."""
    known: dict[str, Object] = {o.key: o for o in objects}
    brought: dict[str, list[str]] = {}
    for object in known.values():
        if isinstance(object, Sink) and object.into is not None:
            brought.setdefault(object.into.key, []).extend(object.depends)
    found: set[str] = set()
    seen: set[str] = set()
    todo = [ObjectKey(key).object for key in keys]
    while todo:
        key = todo.pop()
        if key in seen or key not in known:
            continue
        seen.add(key)
        if is_filled_by_statements(known[key]):
            found.add(key)
        todo += [*known[key].depends, *brought.get(key, ())]
    return found
