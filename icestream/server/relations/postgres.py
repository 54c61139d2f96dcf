"""A model → the rows of pg_catalog's stored relations, a function for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from icestream.server.relations.catalog import (
    PG_CATALOG,
    RELKINDS,
    SYSTEM_SCHEMAS,
    Catalog,
    Row,
    Rows,
    key_constraint,
    key_index,
    procedures_of,
)
from icestream.server.relations.datatypes import BUILT_IN, PgType, modifier, shown
from icestream.server.relations.model import User
from icestream.server.relations.schema import relation, relations

_HEAP, _BTREE, _DEFAULT_SPACE = 2, 403, 1663
_OPERATOR_CLASSES = {
    "int8": 3124, "int4": 1978, "int2": 1979, "text": 3126, "varchar": 3126, "bool": 424, "date": 3122,
    "timestamp": 3128, "timestamptz": 3127, "numeric": 3125, "float8": 3123, "float4": 1970,
    "bytea": 428, "interval": 1982, "time": 2000, "uuid": 2968, "jsonb": 4033,
}  # fmt: skip
"""The default btree operator class of a type."""


def pg_namespace(catalog: Catalog) -> Iterator[Row]:
    """Schemas."""
    owner = {schema.name: schema.owner for schema in catalog.model.schemas}
    for name, oid in catalog.schemas.items():
        yield {"oid": oid, "nspname": name, "nspowner": catalog.owners.get(owner.get(name, ""), 10)}


def pg_class(catalog: Catalog) -> Iterator[Row]:
    """Relations: those of the system, the model's, and an index for each primary key."""
    common = {"relpersistence": "p", "relreplident": "d", "relispopulated": True}
    for system in relations().values():
        yield common | {
            "oid": system.oid, "relname": system.name, "relnamespace": SYSTEM_SCHEMAS[system.schema],
            "relowner": 10, "relkind": system.kind, "relnatts": len(system.columns), "reltuples": -1.0,
            "relam": _HEAP if system.kind == "r" else 0, "relreplident": "n",
        }  # fmt: skip
    indexed = {o.on for o in catalog.model.objects} | {o.oid for o in catalog.keyed()}
    for each in catalog.relations():
        kind = RELKINDS[each.kind]
        yield common | {
            "oid": each.oid, "relname": each.name, "relnamespace": catalog.schemas[each.schema],
            "relowner": catalog.owners.get(each.owner, 10), "relkind": kind, "relnatts": len(each.columns),
            "relam": {"r": _HEAP, "m": _HEAP, "i": _BTREE}.get(kind, 0), "relhasindex": each.oid in indexed,
            "reltuples": float(-1 if each.rows is None else each.rows), "relfilenode": each.oid if kind in "rmi" else 0,
            "relhasrules": kind in "vm", "relreplident": "d" if kind in "rm" else "n",
        }  # fmt: skip
    for each in catalog.keyed():
        yield common | {
            "oid": key_index(each.oid), "relname": f"{each.name}_pkey",
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
            row = _attribute(
                object.oid, number, column.name, catalog.type(column), modifier(column.type)
            )
            row["attnotnull"] = object.kind != "index" and (not column.nullable or column.name in object.primary_key)  # fmt: skip
            row["atthasdef"] = column.default is not None
            row["attgenerated"] = "s" if column.generated else ""
            yield row
        for number, name in enumerate(object.primary_key, 1):
            column = named[name]
            yield _attribute(
                key_index(object.oid), number, name, catalog.type(column), modifier(column.type)
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
    oids = count(3 << 29)
    for object in catalog.relations():
        for number, column in enumerate(object.columns, 1):
            if column.default is not None:
                oid = next(oids)
                yield {"oid": oid, "adrelid": object.oid, "adnum": number, "adbin": column.default}


def pg_type(catalog: Catalog) -> Iterator[Row]:
    """Types."""
    preferred = ("bool", "text", "oid", "float8", "timestamptz", "interval", "inet")
    for type in catalog.types():
        reads, prints, receives, sends = (catalog.procedures[name] for name in procedures_of(type))
        yield {
            "oid": type.oid, "typname": type.name, "typnamespace": PG_CATALOG, "typowner": 10,
            "typlen": type.length, "typbyval": _by_value(type), "typtype": type.kind,
            "typcategory": type.category, "typispreferred": type.name in preferred, "typisdefined": True,
            "typdelim": ",", "typelem": type.element, "typarray": type.array, "typinput": reads,
            "typoutput": prints, "typreceive": receives, "typsend": sends, "typalign": _alignment(type),
            "typstorage": _storage(type), "typtypmod": -1, "typcollation": type.collation,
        }  # fmt: skip


def pg_index(catalog: Catalog) -> Iterator[Row]:
    """Indexes: those that were created and those of primary keys."""
    for index in catalog.indexes():
        names = [column.name for column in index.on.columns]
        types = {column.name: catalog.type(column) for column in index.on.columns}
        columns = (*index.key, *index.include)
        yield {
            "indexrelid": index.oid, "indrelid": index.on.oid, "indnatts": len(columns),
            "indnkeyatts": len(index.key), "indisunique": index.primary, "indisprimary": index.primary,
            "indimmediate": True, "indisvalid": True, "indisready": True, "indislive": True,
            "indkey": [names.index(name) + 1 for name in columns],
            "indcollation": [types[name].collation for name in index.key],
            "indclass": [_OPERATOR_CLASSES.get(types[name].name, 0) for name in index.key],
            "indoption": [0] * len(index.key),
        }  # fmt: skip


def pg_constraint(catalog: Catalog) -> Iterator[Row]:
    """Primary keys."""
    for object in catalog.keyed():
        names = [column.name for column in object.columns]
        yield {
            "oid": key_constraint(object.oid), "conname": f"{object.name}_pkey",
            "connamespace": catalog.schemas[object.schema], "contype": "p", "convalidated": True,
            "conrelid": object.oid, "conindid": key_index(object.oid), "conislocal": True,
            "connoinherit": True, "conkey": [names.index(name) + 1 for name in object.primary_key],
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
    for oid, part, comment in catalog.comments():
        yield {"objoid": oid, "classoid": class_oid, "objsubid": part, "description": comment}


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
        yield {
            "classid": class_oid,
            "objid": reader,
            "refclassid": class_oid,
            "refobjid": read,
            "deptype": "n",
        }
    for object in catalog.keyed():
        yield {
            "classid": class_oid, "objid": key_index(object.oid), "refclassid": constraint,
            "refobjid": key_constraint(object.oid), "deptype": "i",
        }  # fmt: skip


def pg_stat_activity(catalog: Catalog) -> Iterator[Row]:
    """Connections."""
    databases = {database.name: database.oid for database in catalog.model.databases}
    for each in catalog.model.activity:
        yield {
            "datid": databases.get(each.database, 0), "datname": each.database, "pid": each.pid,
            "usesysid": catalog.owners.get(each.user, 10), "usename": each.user,
            "application_name": each.application, "client_addr": each.client, "backend_start": each.started,
            "xact_start": each.transaction_started, "query_start": each.query_started,
            "state_change": each.changed, "wait_event_type": each.wait_type, "wait_event": each.wait_event,
            "state": each.state, "query": each.query, "backend_type": "client backend",
        }  # fmt: skip


def _connectors(catalog: Catalog) -> dict[str, int]:
    """Where sources read from, as the servers of foreign tables: name → OID."""
    names = {each.connector or "source" for each in catalog.model.objects if each.kind == "source"}
    return {name: oid for oid, name in enumerate(sorted(names), 14500)}


def pg_foreign_data_wrapper(catalog: Catalog) -> Iterator[Row]:
    """Connectors of sources."""
    for name, oid in _connectors(catalog).items():
        yield {"oid": oid, "fdwname": name, "fdwowner": 10}


def pg_foreign_server(catalog: Catalog) -> Iterator[Row]:
    """Connectors of sources."""
    for name, oid in _connectors(catalog).items():
        yield {"oid": oid, "srvname": name, "srvowner": 10, "srvfdw": oid}


def pg_foreign_table(catalog: Catalog) -> Iterator[Row]:
    """Sources."""
    servers = _connectors(catalog)
    for each in catalog.relations():
        if each.kind == "source":
            yield {"ftrelid": each.oid, "ftserver": servers[each.connector or "source"]}


_OBJECTS = ("objects", "schemas", "users")

STORED: dict[str, tuple[Rows, tuple[str, ...]]] = {
    "pg_namespace": (pg_namespace, ("schemas", "users")),
    "pg_class": (pg_class, _OBJECTS),
    "pg_attribute": (pg_attribute, ("objects",)),
    "pg_attrdef": (pg_attrdef, ("objects",)),
    "pg_type": (pg_type, ("objects",)),
    "pg_index": (pg_index, ("objects",)),
    "pg_constraint": (pg_constraint, _OBJECTS),
    "pg_database": (pg_database, ("databases", "users")),
    "pg_roles": (pg_roles, ("users",)),
    "pg_proc": (pg_proc, ("functions", "objects")),
    "pg_description": (pg_description, ("objects",)),
    "pg_foreign_data_wrapper": (pg_foreign_data_wrapper, ("objects",)),
    "pg_foreign_server": (pg_foreign_server, ("objects",)),
    "pg_foreign_table": (pg_foreign_table, ("objects",)),
    "pg_am": (pg_am, ()),
    "pg_collation": (pg_collation, ()),
    "pg_tablespace": (pg_tablespace, ()),
    "pg_language": (pg_language, ()),
    "pg_depend": (pg_depend, ("depends", "objects")),
    "pg_stat_activity": (pg_stat_activity, ("activity", "databases", "users")),
}
"""What gives the rows of each, and the parts of a model that they are made from."""
