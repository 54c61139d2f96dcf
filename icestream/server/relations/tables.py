"""A model → the rows of the stored system relations.

Each function gives the rows of one relation, as the columns that say something; the others take the empty
value of their type. What two relations must agree on (OIDs of keys, types of columns) is in `Catalog`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from icestream.server.relations.datatypes import (
    BUILT_IN,
    REGISTERED,
    PgType,
    arrays,
    duck,
    modifier,
    own,
    shown,
)
from icestream.server.relations.model import Column, Model, Object, User
from icestream.server.relations.schema import Relation, relation, relations
from icestream.server.relations.names import quote
from icestream.server.relations.settings import settings
from icestream.types import Type

Row = dict[str, Any]
Rows = Callable[["Catalog"], Iterable[Row]]

PG_CATALOG, INFORMATION_SCHEMA, RW_CATALOG = 11, 13000, 13001
_SYSTEM_SCHEMAS = {
    "pg_catalog": PG_CATALOG,
    "information_schema": INFORMATION_SCHEMA,
    "rw_catalog": RW_CATALOG,
}
_HEAP, _BTREE, _DEFAULT_SPACE = 2, 403, 1663
_RELKINDS = {
    "table": "r", "materialized view": "m", "view": "v", "index": "i",
    "source": "f",  # a stream that is elsewhere: clients list it among foreign tables
    "sink": "s", "subscription": "u",
}  # fmt: skip
_OPERATOR_CLASSES = {
    "int8": 3124, "int4": 1978, "int2": 1979, "text": 3126, "varchar": 3126, "bool": 424, "date": 3122,
    "timestamp": 3128, "timestamptz": 3127, "numeric": 3125, "float8": 3123, "float4": 1970,
    "bytea": 428, "interval": 1982, "time": 2000, "uuid": 2968, "jsonb": 4033,
}  # fmt: skip
"""The default btree operator class of a type."""


def _key_index(oid: int) -> int:
    return oid | 1 << 29


def _key_constraint(oid: int) -> int:
    return oid | 1 << 30


@dataclass(frozen=True)
class Catalog:
    """A model with what is derived from it once: types that only it has, procedures, owners."""

    model: Model
    own_types: dict[Type, PgType]
    procedures: dict[str, int]
    """Input and output functions of types."""
    owners: dict[str, int]
    schemas: dict[str, int]

    def type(self, column: Column) -> PgType:
        """The type of a column."""
        return shown(column.type, self.own_types)

    def types(self) -> list[PgType]:
        """All of pg_type."""
        return [*BUILT_IN.values(), *arrays(self.own_types)]

    def relations(self) -> Iterator[Object]:
        """The objects that are relations."""
        return (o for o in self.model.objects if o.kind in _RELKINDS)

    def keyed(self) -> Iterator[Object]:
        """The relations that have a primary key."""
        return (o for o in self.relations() if o.primary_key)


def catalog(model: Model) -> Catalog:
    """What rows are made from."""
    mine = own(tuple(c.type for o in model.objects for c in o.columns))
    names = sorted({name for type in [*BUILT_IN.values(), *mine.values()] for name in _procedures(type)})
    return Catalog(
        model,
        mine,
        {name: 14000 + number for number, name in enumerate(names)},
        {user.name: user.oid for user in model.users},
        _SYSTEM_SCHEMAS | {schema.name: schema.oid for schema in model.schemas},
    )


def _procedures(type: PgType) -> tuple[str, str, str, str]:
    """The functions that read and print values of a type: in, out, receive, send."""
    stem = type.input.removesuffix("in")
    return (type.input, f"{stem}out", f"{stem}recv", f"{stem}send")


def _plain(column: str, names: tuple[str, ...]) -> int:
    return names.index(column) + 1


def pg_namespace(catalog: Catalog) -> Iterator[Row]:
    """Schemas."""
    owner = {schema.name: schema.owner for schema in catalog.model.schemas}
    for name, oid in catalog.schemas.items():
        yield {"oid": oid, "nspname": name, "nspowner": catalog.owners.get(owner.get(name, ""), 10)}


def pg_class(catalog: Catalog) -> Iterator[Row]:
    """Relations: those of the system, the model's, and an index for each primary key."""
    common = {"relpersistence": "p", "relreplident": "d", "relispopulated": True}
    for each in relations().values():
        yield common | {
            "oid": each.oid, "relname": each.name, "relnamespace": _SYSTEM_SCHEMAS[each.schema],
            "relowner": 10, "relkind": each.kind, "relnatts": len(each.columns), "reltuples": -1.0,
            "relam": _HEAP if each.kind == "r" else 0, "relreplident": "n",
        }  # fmt: skip
    indexed = {o.on for o in catalog.model.objects} | {o.oid for o in catalog.keyed()}
    for each in catalog.relations():
        kind = _RELKINDS[each.kind]
        yield common | {
            "oid": each.oid, "relname": each.name, "relnamespace": catalog.schemas[each.schema],
            "relowner": catalog.owners.get(each.owner, 10), "relkind": kind, "relnatts": len(each.columns),
            "relam": {"r": _HEAP, "m": _HEAP, "i": _BTREE}.get(kind, 0), "relhasindex": each.oid in indexed,
            "reltuples": float(-1 if each.rows is None else each.rows), "relfilenode": each.oid,
            "relhasrules": kind in "vm", "relreplident": "d" if kind in "rm" else "n",
        }  # fmt: skip
    for each in catalog.keyed():
        yield common | {
            "oid": _key_index(each.oid), "relname": f"{each.name}_pkey",
            "relnamespace": catalog.schemas[each.schema], "relowner": catalog.owners.get(each.owner, 10),
            "relkind": "i", "relnatts": len(each.primary_key), "relam": _BTREE, "relreplident": "n",
        }  # fmt: skip


def pg_attribute(catalog: Catalog) -> Iterator[Row]:
    """Columns of all relations, those of indexes as well."""
    for each in relations().values():
        for number, (name, type) in enumerate(each.columns.items(), 1):
            yield _attribute(each.oid, number, name, BUILT_IN[type], -1)
    for object in catalog.relations():
        named = {column.name: column for column in object.columns}
        for number, column in enumerate(object.columns, 1):
            row = _attribute(object.oid, number, column.name, catalog.type(column), modifier(column.type))
            row["attnotnull"] = object.kind != "index" and (not column.nullable or column.name in object.primary_key)  # fmt: skip
            row["atthasdef"] = column.default is not None
            row["attgenerated"] = "s" if column.generated else ""
            yield row
        for number, name in enumerate(object.primary_key, 1):
            column = named[name]
            yield _attribute(
                _key_index(object.oid), number, name, catalog.type(column), modifier(column.type)
            )


def _attribute(relation: int, number: int, name: str, type: PgType, modifier: int) -> Row:
    return {
        "attrelid": relation, "attname": name, "atttypid": type.oid, "attlen": type.length, "attnum": number,
        "attcacheoff": -1, "atttypmod": modifier, "attbyval": _by_value(type), "attalign": _alignment(type),
        "attstorage": _storage(type), "attislocal": True, "attcollation": type.collation, "attstattarget": -1,
        "attndims": 1 if type.input == "array_in" else 0, "attidentity": "", "attgenerated": "",
        "attcompression": "",
    }  # fmt: skip


def _by_value(type: PgType) -> bool:
    return type.length in (1, 2, 4, 8)


def _alignment(type: PgType) -> str:
    if type.length == -2 or type.name in ("name", "uuid"):
        return "c"
    return {1: "c", 2: "s", 6: "s", 8: "d", 12: "d", 16: "d"}.get(type.length, "i")


def _storage(type: PgType) -> str:
    if type.length != -1 or type.name.endswith("vector"):
        return "p"
    return "m" if type.name in ("numeric", "inet") else "x"


def pg_attrdef(catalog: Catalog) -> Iterator[Row]:
    """Defaults and generation expressions."""
    for object in catalog.relations():
        for number, column in enumerate(object.columns, 1):
            if column.default is not None:
                oid = object.oid | 3 << 29
                yield {"oid": oid, "adrelid": object.oid, "adnum": number, "adbin": column.default}


def pg_type(catalog: Catalog) -> Iterator[Row]:
    """Types."""
    preferred = ("bool", "text", "oid", "float8", "timestamptz", "interval", "inet")
    for type in catalog.types():
        reads, prints, receives, sends = (catalog.procedures[name] for name in _procedures(type))
        yield {
            "oid": type.oid, "typname": type.name, "typnamespace": PG_CATALOG, "typowner": 10,
            "typlen": type.length, "typbyval": _by_value(type), "typtype": type.kind,
            "typcategory": type.category, "typispreferred": type.name in preferred, "typisdefined": True,
            "typdelim": ",", "typelem": type.element, "typarray": type.array, "typinput": reads,
            "typoutput": prints, "typreceive": receives, "typsend": sends, "typalign": _alignment(type),
            "typstorage": _storage(type), "typtypmod": -1, "typcollation": type.collation,
        }  # fmt: skip


def _indexes(catalog: Catalog) -> Iterator[tuple[int, Object, tuple[str, ...], Object | None]]:
    """(OID, what it is on, columns of the key, the index that was created) of all indexes."""
    by_oid = {object.oid: object for object in catalog.model.objects}
    for object in catalog.keyed():
        yield _key_index(object.oid), object, object.primary_key, None
    for index in catalog.relations():
        if index.kind == "index" and (on := by_oid.get(index.on or 0)):
            yield index.oid, on, tuple(c.name for c in index.columns), index


def pg_index(catalog: Catalog) -> Iterator[Row]:
    """Indexes: those that were created and those of primary keys."""
    for oid, on, key, index in _indexes(catalog):
        names = tuple(column.name for column in on.columns)
        types = {column.name: catalog.type(column) for column in on.columns}
        include = index.include if index else ()
        yield {
            "indexrelid": oid, "indrelid": on.oid, "indnatts": len(key) + len(include),
            "indnkeyatts": len(key), "indisunique": index is None, "indisprimary": index is None,
            "indimmediate": True, "indisvalid": True, "indisready": True, "indislive": True,
            "indkey": [_plain(name, names) for name in (*key, *include)],
            "indcollation": [types[name].collation for name in key],
            "indclass": [_OPERATOR_CLASSES.get(types[name].name, 0) for name in key],
            "indoption": [0] * len(key),
        }  # fmt: skip


def pg_constraint(catalog: Catalog) -> Iterator[Row]:
    """Primary keys."""
    for object in catalog.keyed():
        names = tuple(column.name for column in object.columns)
        yield {
            "oid": _key_constraint(object.oid), "conname": f"{object.name}_pkey",
            "connamespace": catalog.schemas[object.schema], "contype": "p", "convalidated": True,
            "conrelid": object.oid, "conindid": _key_index(object.oid), "conislocal": True,
            "connoinherit": True, "conkey": [_plain(name, names) for name in object.primary_key],
            "confupdtype": " ", "confdeltype": " ", "confmatchtype": " ",
        }  # fmt: skip


def pg_database(catalog: Catalog) -> Iterator[Row]:
    """Databases."""
    for database in catalog.model.databases:
        yield {
            "oid": database.oid, "datname": database.name, "datdba": catalog.owners.get(database.owner, 10),
            "encoding": 6, "datlocprovider": "c", "datallowconn": True, "datconnlimit": -1,
            "dattablespace": _DEFAULT_SPACE, "datcollate": "C.UTF-8", "datctype": "C.UTF-8",
        }  # fmt: skip


def pg_roles(catalog: Catalog) -> Iterator[Row]:
    """Users."""

    def row(user: User) -> Row:
        return {
            "rolname": user.name, "rolsuper": user.super, "rolinherit": True, "rolcreaterole": user.super,
            "rolcreatedb": user.super, "rolcanlogin": True, "rolconnlimit": -1, "rolpassword": "********",
            "rolbypassrls": user.super, "oid": user.oid,
        }  # fmt: skip

    return map(row, catalog.model.users)


def pg_proc(catalog: Catalog) -> Iterator[Row]:
    """Functions of queries, and those that read and print types."""
    common = {"pronamespace": PG_CATALOG, "proowner": 10, "prolang": 12, "provolatile": "i", "proparallel": "s",
              "procost": 1.0}  # fmt: skip
    for name, oid in catalog.procedures.items():
        result = BUILT_IN["internal" if name.endswith(("in", "recv")) else "cstring"].oid
        yield common | {
            "oid": oid, "proname": name, "prokind": "f", "prorettype": result, "proargtypes": [], "prosrc": name,
        }  # fmt: skip
    for function in catalog.model.functions:
        arguments = [shown(type, catalog.own_types).oid for type in function.arguments]
        yield common | {
            "oid": function.oid, "proname": function.name, "pronargs": len(arguments), "proargtypes": arguments,
            "prokind": {"function": "f", "aggregate": "a", "window": "w"}[function.kind],
            "prorettype": shown(function.result, catalog.own_types).oid, "prosrc": function.name,
        }  # fmt: skip


def pg_description(catalog: Catalog) -> Iterator[Row]:
    """Comments."""
    class_oid = _oid_of("pg_class")
    for (oid, part), comment in _comments(catalog):
        yield {"objoid": oid, "classoid": class_oid, "objsubid": part, "description": comment}


def _comments(catalog: Catalog) -> Iterator[tuple[tuple[int, int], str]]:
    for object in catalog.relations():
        if object.comment:
            yield (object.oid, 0), object.comment
        for number, column in enumerate(object.columns, 1):
            if column.comment:
                yield (object.oid, number), column.comment


def _oid_of(name: str) -> int:
    found = relation("pg_catalog", name)
    assert found
    return found.oid


def pg_am(catalog: Catalog) -> Iterator[Row]:
    """Ways to store: what clients name in look-ups."""
    yield {"oid": _HEAP, "amname": "heap", "amtype": "t"}
    yield {"oid": _BTREE, "amname": "btree", "amtype": "i"}


def pg_collation(catalog: Catalog) -> Iterator[Row]:
    """The one order of texts, under the names PostgreSQL has for it."""
    for oid, name in ((100, "default"), (950, "C"), (951, "POSIX")):
        yield {
            "oid": oid, "collname": name, "collnamespace": PG_CATALOG, "collowner": 10, "collencoding": -1,
            "collprovider": "d" if name == "default" else "c", "collisdeterministic": True,
        }  # fmt: skip


def pg_tablespace(catalog: Catalog) -> Iterator[Row]:
    """Where PostgreSQL says that tables are unless it says otherwise."""
    yield {"oid": _DEFAULT_SPACE, "spcname": "pg_default", "spcowner": 10}
    yield {"oid": 1664, "spcname": "pg_global", "spcowner": 10}


def pg_language(catalog: Catalog) -> Iterator[Row]:
    """Languages of functions."""
    for oid, name in ((12, "internal"), (14, "sql")):
        yield {"oid": oid, "lanname": name, "lanowner": 10}


def pg_depend(catalog: Catalog) -> Iterator[Row]:
    """Who reads whom, and which index belongs to which key."""
    class_oid, constraint = _oid_of("pg_class"), _oid_of("pg_constraint")
    for reader, read in catalog.model.depends:
        yield {"classid": class_oid, "objid": reader, "refclassid": class_oid, "refobjid": read, "deptype": "n"}
    for object in catalog.keyed():
        yield {
            "classid": class_oid, "objid": _key_index(object.oid), "refclassid": constraint,
            "refobjid": _key_constraint(object.oid), "deptype": "i",
        }  # fmt: skip


def pg_stat_activity(catalog: Catalog) -> Iterator[Row]:
    """Connections."""
    databases = {database.name: database.oid for database in catalog.model.databases}
    for each in catalog.model.activity:
        yield {
            "datid": databases.get(each.database, 0), "datname": each.database, "pid": each.pid,
            "usesysid": catalog.owners.get(each.user, 10), "usename": each.user,
            "application_name": each.application, "client_addr": each.client, "backend_start": each.started,
            "state": each.state, "query": each.query, "backend_type": "client backend",
        }  # fmt: skip


def the_settings(catalog: Catalog) -> Iterator[Row]:
    """Settings outside any session; pg_settings shows them as the session has them."""
    for setting in settings(catalog.model):
        yield {
            "name": setting.name, "setting": setting.value, "category": "Settings", "context": "user",
            "short_desc": setting.description, "vartype": setting.type, "source": "default",
            "boot_val": setting.value, "reset_val": setting.value,
        }  # fmt: skip


def the_names(catalog: Catalog) -> Iterator[Row]:
    """What OIDs print as, and which names mean them, for reg… types and visibility."""

    def row(kind: str, oid: int, schema: str, name: str, display: str | None = None) -> Row:
        short = display or quote(name)
        full = f"{quote(schema)}.{short}"
        return {"kind_": kind, "oid_": oid, "schema_": schema, "raw_": name, "short_": short, "full_": full}

    for each in relations().values():
        yield row("regclass", each.oid, each.schema, each.name)
    for object in catalog.relations():
        yield row("regclass", object.oid, object.schema, object.name)
        if object.primary_key:
            yield row("regclass", _key_index(object.oid), object.schema, f"{object.name}_pkey")
    for type in catalog.types():
        yield row("regtype", type.oid, "pg_catalog", type.display, type.display)
        for alias in (type.name, f"{type.name[1:]}[]"):
            if alias == type.name or type.name.startswith("_"):
                yield row("regtype alias", type.oid, "pg_catalog", alias)
    for name, oid in (*catalog.procedures.items(), *((f.name, f.oid) for f in catalog.model.functions)):
        yield row("regproc", oid, "pg_catalog", name)
    for name, oid in catalog.schemas.items():
        yield row("regnamespace", oid, "pg_catalog", name)
    for name, oid in catalog.owners.items():
        yield row("regrole", oid, "pg_catalog", name)


def the_texts(catalog: Catalog) -> Iterator[Row]:
    """What functions say about an OID: definitions, comments, sizes."""

    def row(what: str, oid: int, text: str, part: int = 0) -> Row:
        return {"what_": what, "oid_": oid, "part_": part, "text_": text}

    for object in catalog.relations():
        if object.kind in ("view", "materialized view"):
            yield row("view", object.oid, object.query or object.definition)
        if object.bytes:
            yield row("bytes", object.oid, str(object.bytes))
        if object.primary_key:
            key = ", ".join(map(quote, object.primary_key))
            yield row("constraint", _key_constraint(object.oid), f"PRIMARY KEY ({key})")
    for oid, on, key, index in _indexes(catalog):
        name = quote(index.name if index else f"{on.name}_pkey")
        columns = ", ".join(map(quote, key))
        more = f" INCLUDE ({', '.join(map(quote, index.include))})" if index and index.include else ""
        head, tail = f"CREATE {'' if index else 'UNIQUE '}INDEX {name} ON", f"USING btree ({columns}){more}"
        full = f"{quote(on.schema)}.{quote(on.name)}"
        yield row("index", oid, f"{head} {full} {tail}")
        yield row("index pretty", oid, f"{head} {quote(on.name) if on.schema == 'public' else full} {tail}")
        for number, column in enumerate(key, 1):
            yield row("index", oid, quote(column), number)
    for (oid, part), comment in _comments(catalog):
        yield row("comment", oid, comment, part)
    for function in catalog.model.functions:
        arguments = (shown(type, catalog.own_types).display for type in function.arguments)
        yield row("arguments", function.oid, ", ".join(arguments))
        yield row("result", function.oid, shown(function.result, catalog.own_types).display)


_LOOKUPS = {
    "the_names": {"kind_": "text", "oid_": "oid", "schema_": "text", "raw_": "text", "short_": "text", "full_": "text"},
    "the_texts": {"what_": "text", "oid_": "oid", "part_": "int4", "text_": "text"},
}  # fmt: skip

_CATALOG = ("objects", "depends", "schemas", "databases", "users", "settings", "functions")
"""The parts of a model that most relations are made from."""

STORED: dict[str, tuple[Rows, tuple[str, ...]]] = {
    each.__name__: (each, _CATALOG)
    for each in (
        pg_namespace, pg_class, pg_attribute, pg_attrdef, pg_type, pg_index, pg_constraint, pg_database,
        pg_roles, pg_proc, pg_description, pg_am, pg_collation, pg_tablespace, pg_language, pg_depend,
        the_settings, the_names, the_texts,
    )
} | {"pg_stat_activity": (pg_stat_activity, ("databases", "users", "activity"))}  # fmt: skip
"""The relations that have rows: what gives them, and the parts of a model that they are made from."""


def stored(name: str) -> Relation:
    """The relation behind a name of `STORED`."""
    if name.startswith("the_"):
        columns = _LOOKUPS.get(name) or relations()["pg_catalog", "pg_settings"].columns
        return Relation("main", name, 0, "r", columns)
    return relations()["rw_catalog" if name.startswith("rw_") else "pg_catalog", name]


_EMPTY = {
    "bool": False, "int2": 0, "int4": 0, "int8": 0, "oid": 0, "xid": 0, "float4": 0.0,
    "int2vector": [], "oidvector": [], "char": "",
} | dict.fromkeys(REGISTERED, 0)  # fmt: skip


def columns(relation: Relation, rows: Iterable[Row]) -> list[tuple[str, str, list[Any]]]:
    """Rows → (name, DuckDB's type, values) of every column of a relation."""
    rows = list(rows)
    empty = _EMPTY if relation.schema == "pg_catalog" else {}
    return [
        (name, duck(type), [row.get(name, empty.get(type)) for row in rows])
        for name, type in relation.columns.items()
    ]
