"""CREATE OR REPLACE: a view takes the place of another one of its name. A materialized view is filled first, under a name
of its own, so that the old one answers until then."""

from __future__ import annotations

from dataclasses import replace

from icestream.catalog.bind import bind
from icestream.catalog.catalog import Catalog, Change
from icestream.catalog.objects import NEVER_ALTERED, Altered, Index, Object, View
from icestream.errors import SqlError
from icestream.sql import statements as st
from icestream.sql.amend import Draft

STAGED = "~"
"""Between the name of a view and its number, while it is being filled to replace another one."""


def plain(statement: st.CreateView, catalog: Catalog) -> st.CreateView:
    """The statement without OR REPLACE."""
    draft = Draft(statement.text, catalog.values())
    draft.cut("OR", "REPLACE")
    found = draft.reread()
    assert isinstance(found, st.CreateView)
    return replace(found, place=statement.place)


def replacement(said: st.CreateView, change: Change, catalog: Catalog) -> Change:
    """A materialized view under a name of its own that is to replace the one that is there."""
    old = catalog.objects[change.object.name]
    check_replaceable(old, catalog)
    draft = Draft(change.statement.text, catalog.values())
    draft.rename(f"{old.name}{STAGED}{change.object.id}")
    statement = draft.reread()
    born = Altered(born=old.name)
    object = bind(statement, change.object.id, catalog.names(), born)
    if old.key in object.depends:
        raise SqlError(
            f"{old.kind} {old.name} cannot be replaced by a query that reads it", place=said.place
        )
    return Change(statement, object, exists=False, replaces=old, text=said.text)


def redefined(change: Change, catalog: Catalog) -> Catalog:
    """The catalog with another query behind a plain view."""
    old = catalog.stored[change.object.name]
    check_replaceable(catalog.objects[old.name], catalog)
    stored = {s.id: s for s in catalog.stored.values()}
    altered = replace(old.altered, redefined=catalog.next_id)
    new = replace(old, text=change.statement.text, altered=altered)
    after = catalog.trial((stored | {old.id: new}).values(), {})
    after.check_whole()
    return after


def check_replaceable(old: Object, catalog: Catalog) -> None:
    """Whether nothing stands on an object that would have to be computed anew with it."""
    present = catalog.objects.get(old.name)
    if present is None or present.key != old.key:
        raise SqlError(f"{old.kind} {old.name} was dropped or replaced meanwhile")
    harmless = (Index, View) if isinstance(old, View) else (Index,)
    needed = [o for o in catalog.dependents(old) if not isinstance(o, harmless)]
    if needed:
        listed = ", ".join(f"{o.kind} {o.name}" for o in needed)
        raise SqlError(
            f"{old.kind} {old.name} is needed by {listed}",
            remedy="drop those first, then replace it and create them again",
        )


def swapped(catalog: Catalog, new: Object, old: Object) -> tuple[Catalog, list[str]]:
    """The catalog with the new object under the old one's name, and the names that go for that."""
    going = [old.name, *(o.name for o in catalog.dependents(old))]
    own = catalog.stored[new.name]
    draft = Draft(own.text, catalog.values())
    draft.rename(old.name)
    named = replace(own, name=old.name, text=draft.text, altered=NEVER_ALTERED)
    rest = [s for s in catalog.stored.values() if s.name not in (*going, new.name)]
    after = catalog.trial([*rest, named], {})
    after.check_whole()
    return after, going
