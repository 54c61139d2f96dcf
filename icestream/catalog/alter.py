"""ALTER: the catalog as it will be. Texts are amended and all objects built anew from them, so that what cannot be is
found before anything has changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from icestream.catalog.bind import bind
from icestream.catalog.catalog import Catalog, secret_prefix
from icestream.catalog.names import Names, check_new_name, public
from icestream.catalog.objects import Broken, Connector, Object, Sink, Source, Table
from icestream.catalog.store import StoredObject
from icestream.connectors import dml
from icestream.errors import IcestreamError, NotSupportedError, Place, SqlError
from icestream.functions.expressions import Expr, columns_used
from icestream.sql import statements as st
from icestream.sql.amend import FILE, Draft, written
from icestream.sql.masking import conceal

LIVE = re.compile(
    r"commit_checkpoint_interval|commit_retry_num|is_exactly_once|enable_compaction|compaction[._].*"
    r"|enable_snapshot_expiration|snapshot_expiration_.*"
)
"""Options of a sink that may change while it runs."""
ACCESS = re.compile(
    r"properties\..*|s3\.(region|endpoint|access\.key|secret\.key|path\.style\.access)"
    r"|catalog\.(credential|token|scope|oauth2_server_uri|jdbc\.user|jdbc\.password)"
)
"""Options that say how something outside is reached, not what it is."""
RATE_LIMIT, PARALLELISM = "source_rate_limit", "parallelism"
UNDECIDED = ("adaptive", "auto", "default")


@dataclass(frozen=True)
class Alteration:
    """What an ALTER does: the catalog that takes the place of the present one, and what is to be said."""

    catalog: Catalog | None = None
    """None: nothing changes."""
    notice: str | None = None
    reset: str | None = None
    """The key of a source that is to go on after what was lost."""


@dataclass(frozen=True)
class Noting(Names):
    """Names that take down which object was found at which place."""

    noted: dict[Place, str] = field(default_factory=dict)

    def find(self, name: st.Name, *kinds: type[Object], broken: bool = False) -> Object:
        """See `Names.find`."""
        found = super().find(name, *kinds, broken=broken)
        if name.place is not None:
            self.noted[name.place] = found.key
        return found


def alter(statement: st.Alter, catalog: Catalog) -> Alteration:
    """What a statement makes of the catalog; changes nothing itself."""
    object = _found(statement.name, statement.kind, catalog)
    action = statement.action
    match action:
        case "rename":
            assert statement.new_name is not None
            check_new_name(statement.new_name, statement.place)
            _check_free(statement.new_name, catalog, statement.place)
            return Alteration(renamed(catalog, object, statement.new_name))
        case "swap":
            return Alteration(_swapped(statement, object, catalog))
        case "owner":
            return Alteration(notice="there are no owners: every user may change every object")
        case "set schema":
            public(st.Name(object.name, statement.new_name, statement.place))
            return Alteration()
        case "add column":
            return _with_column(statement, object, catalog)
        case "drop column":
            return _without_column(statement, object, catalog)
        case "set" | "connector":
            return Alteration(_with_options(statement, object, catalog))
        case "set secret":
            return Alteration(_with_secret(statement, object, catalog))
        case "set backfill_rate_limit":
            return Alteration(notice=f"{object.kind} {object.name} is filled: nothing is held back")
        case "set parallelism" | "set source_rate_limit" | "pause" | "resume":
            return _set(statement, object, catalog)
        case "reset":
            return Alteration(reset=_fed_from_outside(statement, object).key)
    raise NotSupportedError(f"ALTER … {action.upper()}", place=statement.place)


def _fed_from_outside(statement: st.Alter, object: Object) -> Object:
    """The object, if it takes records in from outside."""
    ingest = getattr(object, "ingest", None)
    if ingest is None or ingest.connector == dml.NAME:
        raise SqlError(
            f"{object.kind} {object.name} has no connector whose position could be reset",
            place=statement.place,
            remedy="name a source, a table with a connector, or a connector",
        )
    return object


def _found(name: st.Name, kind: str, catalog: Catalog) -> Object:
    catalog.check_whole()
    found = catalog.names().find(name)
    if found.kind != kind:
        raise SqlError(
            f'"{name}" is a {found.kind}, not a {kind}',
            place=name.place,
            remedy=f"ALTER {found.kind.upper()} {name}",
        )
    return found


def _check_free(name: str, catalog: Catalog, place: Place) -> None:
    taken = catalog.objects.get(name) or catalog.reserved.get(name)
    if taken is not None:
        kind = taken.kind
        raise SqlError(
            f"{kind} {name} exists already", place=place, remedy="choose another name, or SWAP WITH"
        )


# -- names ----------------------------------------------------------------------------------------


def renamed(catalog: Catalog, object: Object, new: str) -> Catalog:
    """The catalog with an object under another name: in its own text, and where others name it."""
    stored = {s.id: s for s in catalog.stored.values()}
    own = stored[object.id]
    secrets: dict[str, str] = {}
    for other in catalog:
        text = stored[other.id].text
        draft = Draft(text, catalog.values())
        if other.id == object.id:
            draft.rename(new)
            text, secrets = catalog.moved_secrets(draft.text, object.name, new)
            altered = replace(own.altered, born=own.altered.born or object.name)
            stored[other.id] = replace(own, name=new, text=text, altered=altered)
            continue
        for place in _references(other, object, draft.statement, catalog):
            draft.refer(place, object.name, new)
        if draft.text != text:
            stored[other.id] = replace(stored[other.id], text=draft.text)
    return _checked(catalog, catalog.trial(stored.values(), secrets))


def _references(
    other: Object, object: Object, statement: st.Statement, catalog: Catalog
) -> list[Place]:
    """Where a statement names an object."""
    known = catalog.names()
    noting = Noting(known.objects, known.env, known.secrets)
    bind(statement, other.id, noting, other.altered)
    return [place for place, key in noting.noted.items() if (place.file, key) == (FILE, object.key)]


def _swapped(statement: st.Alter, one: Object, catalog: Catalog) -> Catalog:
    schema, _, name = str(statement.new_name).rpartition(".")
    two = _found(st.Name(name, schema or None, statement.place), statement.kind, catalog)
    if one.key == two.key:
        raise SqlError(f"{one.kind} {one.name} cannot change names with itself", place=statement.place)  # fmt: skip
    aside = f"#{one.id}"
    made = renamed(catalog, one, aside)
    made = renamed(made, made.objects[two.name], one.name)
    return renamed(made, made.objects[aside], two.name)


def _checked(before: Catalog, after: Catalog, changed: Object | None = None) -> Catalog:
    """The catalog after a change that leaves all objects but one what they are."""
    after.check_whole()
    for old, new in zip(before, after, strict=True):
        if old is not changed and _shape(old) != _shape(new):
            raise SqlError(f"{old.kind} {old.name} would not be the same any more")
    return after


def _shape(object: Object) -> tuple[object, ...]:
    """What must stay as it is while an object has rows: its key, its columns, the tables that keep it up to date."""
    stages = getattr(object, "stages", ())
    columns = [(c.name, c.type) for c in object.columns]
    if isinstance(object, Sink) and object.into is not None:
        columns = []  # those of the table it writes into
    return object.key, columns, [(s.relation, s.columns, s.reads) for s in stages]


# -- columns --------------------------------------------------------------------------------------


def _with_column(statement: st.Alter, object: Object, catalog: Catalog) -> Alteration:
    column = statement.column
    assert column is not None
    what = f"{object.kind} {object.name}"
    if any(c.name == column.name for c in object.columns):
        if statement.lenient:
            return Alteration(notice=f'column "{column.name}" of {what} is there already')
        raise SqlError(f'column "{column.name}" of {what} would be there twice', place=column.place)
    _check_filled(object, statement)
    null = column.default is not None and column.default.text.strip().upper() == "NULL"
    for asked, why in (
        (column.type is None, "without a type"),
        (column.generated is not None, "that is generated"),
        (column.not_null or column.primary_key, "that must not be NULL"),
        (column.default is not None and not null, "with a DEFAULT"),
    ):
        if asked:
            raise NotSupportedError(
                f"adding a column {why} to {what}",
                place=column.place,
                remedy="a new column is NULL in the rows that are there; UPDATE can fill it",
            )
    definition = Draft(statement.text, catalog.values())
    written_so = definition.since(definition.statement.column.place)  # type: ignore[attr-defined]
    own = catalog.stored[object.name]
    draft = Draft(own.text, catalog.values())
    _amend(lambda: draft.add_column(written_so), what, statement)
    added = {**own.altered.added, column.name: catalog.next_id}
    altered = replace(own.altered, added=added)
    after = _replaced(catalog, replace(own, text=draft.text, altered=altered))
    _checked(catalog, after, object)
    _check_rule(object, after, statement)
    return Alteration(after)


def _without_column(statement: st.Alter, object: Object, catalog: Catalog) -> Alteration:
    name = statement.column_name
    assert name is not None
    what = f"{object.kind} {object.name}"
    if all(c.name != name for c in object.columns):
        if statement.lenient:
            return Alteration(notice=f'{what} has no column "{name}"')
        raise SqlError(f'{what} has no column "{name}"', place=statement.place)
    _check_filled(object, statement)
    assert isinstance(object, Table | Source)
    _check_unused(object, name, statement.place)
    own = catalog.stored[object.name]
    draft = Draft(own.text, catalog.values())
    if all(c.name != name for c in draft.statement.columns):  # type: ignore[attr-defined]
        raise NotSupportedError(
            f'dropping column "{name}" of {what}, which an INCLUDE makes', place=statement.place
        )
    _amend(lambda: draft.drop_column(name), what, statement)
    added = {n: id for n, id in own.altered.added.items() if n != name}
    altered = replace(own.altered, added=added)
    after = _replaced(catalog, replace(own, text=draft.text, altered=altered))
    made = next(o for o in after if o.id == object.id)
    if isinstance(made, Broken):
        raise SqlError(f'column "{name}" cannot be dropped: {made.error.message}', place=statement.place)  # fmt: skip
    needed = [
        old for old, new in zip(catalog, after, strict=True)
        if old.id != object.id and (isinstance(new, Broken) or _shape(old) != _shape(new))
    ]  # fmt: skip
    needed += [o for o in catalog if o not in needed and _fills_in_order(o, object, catalog)]
    if needed:
        listed = ", ".join(f"{o.kind} {o.name}" for o in needed)
        raise SqlError(
            f'column "{name}" of {what} is needed by {listed}',
            place=statement.place,
            remedy="drop those first, or create them without it",
        )
    _check_rule(object, after, statement)
    return Alteration(after)


def _check_filled(object: Object, statement: st.Alter) -> None:
    if not isinstance(object, Table | Source) or object.ingest is None:
        raise NotSupportedError(
            f"ALTER {object.kind.upper()} … {statement.action.upper()}",
            place=statement.place,
            remedy="drop it and create it with the columns that are wanted",
        )


def _fills_in_order(sink: Object, table: Object, catalog: Catalog) -> bool:
    """Whether a sink gives the columns of a table in their order, without naming them."""
    if not isinstance(sink, Sink) or sink.into is None or sink.into.key != table.key:
        return False
    statement = Draft(catalog.stored[sink.name].text, catalog.values()).statement
    return isinstance(statement, st.CreateSink) and not statement.into_columns


def _check_rule(object: Object, after: Catalog, statement: st.Alter) -> None:
    """Refuse a column that decides whether rows of a table without a key can be changed."""
    new = after.objects[object.name]
    if isinstance(object, Table) and isinstance(new, Table) and object.changing != new.changing:
        raise NotSupportedError(
            f"{statement.action} of this type, table {object.name} having no key: its rows are changed as a whole",
            place=statement.place,
            remedy="lists, structs, jsonb and intervals go into tables with a PRIMARY KEY",
        )


def _check_unused(object: Table | Source, name: str, place: Place) -> None:
    """Refuse to drop what the object itself stands on."""
    uses: list[tuple[str, bool]] = []
    if isinstance(object, Table) and object.upsert is not None and object.upsert.keyed:
        uses.append(("the primary key", name in object.upsert.key))
        uses.append(("the version columns", name in (object.upsert.version or ())))
    mark = object.watermark
    if mark is not None:
        uses.append(("the watermark", name == mark.column or name in _named(mark.expr)))
    for column in object.columns:
        if column.generated is not None:
            uses.append((f"column {column.name}", name in _named(column.generated)))
    for what, used in uses:
        if used:
            raise SqlError(
                f'column "{name}" of {object.kind} {object.name} is needed by {what}',
                place=place,
                remedy=f"drop {object.kind} {object.name} and create it without the column",
            )


def _named(expr: Expr) -> set[str]:
    return {ref.name for ref in columns_used(expr)}


def _amend(change: Callable[[], None], what: str, statement: st.Alter) -> None:
    try:
        change()
    except SqlError as error:
        raise SqlError(f"{what}: {error.message}", place=statement.place, remedy=error.remedy) from error  # fmt: skip


def _replaced(
    catalog: Catalog, own: StoredObject, secrets: Mapping[str, str] | None = None
) -> Catalog:
    stored = {s.id: s for s in catalog.stored.values()} | {own.id: own}
    return catalog.trial(stored.values(), secrets or {})


# -- options and settings -------------------------------------------------------------------------


def _with_options(statement: st.Alter, object: Object, catalog: Catalog) -> Catalog:
    what = f"{object.kind} {object.name}"
    own = catalog.stored[object.name]
    draft = Draft(own.text, catalog.values())
    for option in statement.options.values():
        live = object.kind == "sink" and LIVE.fullmatch(option.key)
        if not (live or ACCESS.fullmatch(option.key)):
            raise SqlError(
                f"{option.key} of {what} cannot be changed: it says what the {object.kind} is",
                place=option.place,
                remedy=f"DROP {object.kind.upper()} {object.name}, and create it with another one",
            )
        quoted = option.value.replace("'", "''")
        value = f"SECRET {written(option.secret.name)}" if option.secret else f"'{quoted}'"
        key = option.key
        _amend(lambda key=key, value=value: draft.set_option(key, value), what, statement)  # type: ignore[misc]
    return _retold(catalog, own, draft.text, statement)


def _with_secret(statement: st.Alter, object: Object, catalog: Catalog) -> Catalog:
    own = catalog.stored[object.name]
    draft = Draft(own.text, catalog.values())
    draft.set_string(statement.value or "")
    return _retold(catalog, own, draft.text, statement)


def _retold(catalog: Catalog, own: StoredObject, text: str, statement: st.Alter) -> Catalog:
    """The catalog with another text of an object, whose plain secrets go where secrets are."""
    prefix = f"{secret_prefix(own.name)}_{catalog.store.plan}"
    text, secrets = conceal(text, prefix)
    after = _replaced(catalog, replace(own, text=text), secrets)
    try:
        return _checked(catalog, after)
    except IcestreamError as error:
        cause = error.__cause__ if isinstance(error.__cause__, IcestreamError) else error
        raise SqlError(cause.message, place=statement.place, remedy=cause.remedy) from error


def _set(statement: st.Alter, object: Object, catalog: Catalog) -> Alteration:
    name, value = statement.action.removeprefix("set "), statement.value
    if name in ("pause", "resume"):
        name, value = "paused", "true" if name == "pause" else None
    if value in UNDECIDED:
        value = None
    takes = object.kind in ("table", "materialized view", "sink")
    if name != PARALLELISM:
        takes = isinstance(object, Source | Table | Connector) and object.ingest is not None
        takes &= getattr(object.ingest, "connector", None) != dml.NAME  # type: ignore[attr-defined]
    if not takes:
        raise SqlError(
            f"{object.kind} {object.name} has no {name.upper()} to set", place=statement.place
        )
    least = 1 if name == PARALLELISM else 0
    if value is not None and name != "paused" and (not value.isdigit() or int(value) < least):
        raise SqlError(
            f"{name} accepts DEFAULT or a whole number, at least {least}, not {value!r}",
            place=statement.place,
        )
    own = catalog.stored[object.name]
    settings = {n: v for n, v in own.altered.settings.items() if n != name}
    if value is not None:
        settings[name] = value
    altered = replace(own.altered, settings=settings)
    return Alteration(_checked(catalog, _replaced(catalog, replace(own, altered=altered))))
