"""PostgreSQL's types: their OIDs and names, what holds their values in DuckDB, and which one a type of ours is.

OIDs, lengths and categories are PostgreSQL's own, since clients know them by heart. Structs and maps, which
PostgreSQL has no name for, get OIDs of their own from `FIRST_OWN` on, in the order in which a model shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from icestream.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NULL,
    NUMERIC,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    ArrayType,
    NumericType,
    Type,
    array,
)

FIRST_OWN = 15000
"""The OID of the first type that PostgreSQL does not know; below those of objects."""


@dataclass(frozen=True)
class PgType:
    """A row of pg_type, as far as it differs from type to type. `display` is what format_type prints."""

    oid: int
    name: str
    display: str
    length: int = -1
    category: str = "U"
    kind: str = "b"
    array: int = 0
    element: int = 0
    collation: int = 0
    input: str = "record_in"


_BASE = """
16 bool 1 B 1000 0 boolin boolean
17 bytea -1 U 1001 0 byteain bytea
18 char 1 Z 1002 0 charin "char"
19 name 64 S 1003 18 namein name
20 int8 8 N 1016 0 int8in bigint
21 int2 2 N 1005 0 int2in smallint
22 int2vector -1 A 1006 21 int2vectorin int2vector
23 int4 4 N 1007 0 int4in integer
24 regproc 4 N 1008 0 regprocin regproc
25 text -1 S 1009 0 textin text
26 oid 4 N 1028 0 oidin oid
27 tid 6 U 1010 0 tidin tid
28 xid 4 U 1011 0 xidin xid
29 cid 4 U 1012 0 cidin cid
30 oidvector -1 A 1013 26 oidvectorin oidvector
114 json -1 U 199 0 json_in json
142 xml -1 U 143 0 xml_in xml
194 pg_node_tree -1 Z 0 0 pg_node_tree_in pg_node_tree
700 float4 4 N 1021 0 float4in real
701 float8 8 N 1022 0 float8in double precision
705 unknown -2 X 0 0 unknownin unknown
869 inet -1 I 1041 0 inet_in inet
1033 aclitem 12 U 1034 0 aclitemin aclitem
1042 bpchar -1 S 1014 0 bpcharin character
1043 varchar -1 S 1015 0 varcharin character varying
1082 date 4 D 1182 0 date_in date
1083 time 8 D 1183 0 time_in time without time zone
1114 timestamp 8 D 1115 0 timestamp_in timestamp without time zone
1184 timestamptz 8 D 1185 0 timestamptz_in timestamp with time zone
1186 interval 16 T 1187 0 interval_in interval
1266 timetz 12 D 1270 0 timetz_in time with time zone
1700 numeric -1 N 1231 0 numeric_in numeric
2202 regprocedure 4 N 2207 0 regprocedurein regprocedure
2205 regclass 4 N 2210 0 regclassin regclass
2206 regtype 4 N 2211 0 regtypein regtype
2249 record -1 P 2287 0 record_in record
2275 cstring -2 P 1263 0 cstring_in cstring
2276 any 4 P 0 0 any_in "any"
2277 anyarray -1 P 0 0 anyarray_in anyarray
2278 void 4 P 0 0 void_in void
2279 trigger 4 P 0 0 trigger_in trigger
2281 internal 8 P 0 0 internal_in internal
2283 anyelement 4 P 0 0 anyelement_in anyelement
2950 uuid 16 U 2951 0 uuid_in uuid
3220 pg_lsn 8 U 3221 0 pg_lsn_in pg_lsn
3802 jsonb -1 U 3807 0 jsonb_in jsonb
4089 regnamespace 4 N 4090 0 regnamespacein regnamespace
4096 regrole 4 N 4097 0 regrolein regrole
5069 xid8 8 U 271 0 xid8in xid8
"""
"""OID, name, length, category, OID of its array, OID of its element, input function, what format_type prints."""

_DEFAULT_COLLATION, _C_COLLATION = 100, 950
_COLLATIONS = {"text": _DEFAULT_COLLATION, "bpchar": _DEFAULT_COLLATION, "varchar": _DEFAULT_COLLATION,
               "pg_node_tree": _DEFAULT_COLLATION, "name": _C_COLLATION}  # fmt: skip


def _built_in() -> dict[str, PgType]:
    types = {}
    for line in _BASE.strip().splitlines():
        oid, name, length, category, array, element, input, display = line.split(" ", 7)
        kind = "p" if category in "PX" else "b"
        collation = _COLLATIONS.get(name, 0)
        types[name] = PgType(
            int(oid), name, display, int(length), category, kind, int(array), int(element), collation, input
        )  # fmt: skip
        if array != "0":
            types[f"_{name}"] = _array(types[name])
    return types


def _array(of: PgType) -> PgType:
    """The type of arrays of a type."""
    kind, category = ("p", "P") if of.name == "record" else ("b", "A")
    return PgType(
        of.array, f"_{of.name}", f"{of.display}[]", -1, category, kind, 0, of.oid, of.collation, "array_in"
    )  # fmt: skip


BUILT_IN = _built_in()
"""Every type of PostgreSQL that is shown, by its name in pg_type."""

BY_OID = {type.oid: type for type in BUILT_IN.values()}

REGISTERED = ("regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole")
"""Types whose values are OIDs that print as names."""

_DUCK = {
    "bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT",
    "float8": "DOUBLE", "oid": "UINTEGER", "xid": "UINTEGER", "cid": "UINTEGER", "date": "DATE",
    "int2vector": "SMALLINT[]", "oidvector": "UINTEGER[]", "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ", "interval": "INTERVAL", "numeric": "DECIMAL(38,10)", "xid8": "UBIGINT",
    "bytea": "BLOB", "time": "TIME", "uuid": "UUID",
} | dict.fromkeys(REGISTERED, "UINTEGER")  # fmt: skip

_ALIASES = {
    "boolean": "bool", "smallint": "int2", "integer": "int4", "int": "int4", "bigint": "int8",
    "real": "float4", "double": "float8", "double precision": "float8", "float": "float8",
    "decimal": "numeric", "character varying": "varchar", "character": "bpchar", "uint": "oid",
    "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz",
    "time without time zone": "time", "sql_identifier": "name", "character_data": "varchar",
    "yes_or_no": "varchar", "cardinal_number": "int4", "time_stamp": "timestamptz", '"char"': "char",
}  # fmt: skip


def named(name: str) -> str | None:
    """PostgreSQL's own name of the type that SQL calls `name`; arrays as `_element`. None if there is none."""
    if name.endswith("[]"):
        element = named(name[:-2])
        return f"_{element}" if element and f"_{element}" in BUILT_IN else None
    found = _ALIASES.get(name, name)
    return found if found in BUILT_IN else None


def duck(name: str) -> str:
    """What holds the values of a type, given by PostgreSQL's name, in DuckDB."""
    return f"{duck(name[1:])}[]" if name.startswith("_") else _DUCK.get(name, "VARCHAR")


_FROM_DUCK = {
    "BOOLEAN": "bool", "TINYINT": "int2", "UTINYINT": "int2", "SMALLINT": "int2", "USMALLINT": "int4",
    "INTEGER": "int4", "UINTEGER": "oid", "BIGINT": "int8", "UBIGINT": "numeric", "HUGEINT": "numeric",
    "FLOAT": "float4", "DOUBLE": "float8", "DATE": "date", "TIMESTAMP": "timestamp", "BLOB": "bytea",
    "TIMESTAMP WITH TIME ZONE": "timestamptz", "INTERVAL": "interval", "JSON": "json", "UUID": "uuid",
    "TIME": "time",
}  # fmt: skip


def from_duck(type: str) -> str:
    """PostgreSQL's name for a type of DuckDB, as its description of a result prints it."""
    if type.endswith("[]"):
        return f"_{from_duck(type[:-2])}"
    if type.startswith("STRUCT"):
        return "record"
    return "numeric" if type.startswith("DECIMAL") else _FROM_DUCK.get(type, "text")


_OURS = {
    BOOLEAN: "bool", SMALLINT: "int2", INTEGER: "int4", BIGINT: "int8", REAL: "float4", DOUBLE: "float8",
    VARCHAR: "varchar", BYTEA: "bytea", DATE: "date", TIME: "time", TIMESTAMP: "timestamp",
    TIMESTAMPTZ: "timestamptz", INTERVAL: "interval", JSONB: "jsonb", NULL: "unknown",
}  # fmt: skip


_CATALOGS = ("oid", "xid", "text", "bpchar", "name", "int2vector", "oidvector", "json", "uuid", "pg_node_tree",
             "aclitem", *REGISTERED)  # fmt: skip
"""Types that only catalogs have, with the names that they keep."""

_BACK = (
    {name: type for type, name in _OURS.items() if type is not NULL}
    | {name: Type(name) for name in _CATALOGS}
    | {"char": Type('"char"'), "numeric": NUMERIC, "cid": Type("xid")}
)


def ours(name: str) -> Type:
    """The type of ours for a value of PostgreSQL's type of that name; texts for what nobody computes with."""
    if name.startswith("_"):
        return array(ours(name[1:]))
    return _BACK.get(name, Type("text"))


@cache
def known(type: Type) -> PgType | None:
    """What a type of ours is in PostgreSQL; None for a struct, a map and arrays of them."""
    if isinstance(type, ArrayType):
        element = known(type.element)
        # An array of arrays is an array: PostgreSQL's types do not count dimensions.
        return BY_OID.get(element.array, element) if element else None
    if isinstance(type, NumericType):
        return BUILT_IN["numeric"]
    return BUILT_IN[_OURS[type]] if type in _OURS else None


def modifier(type: Type) -> int:
    """The typmod of a column of that type: a numeric's precision and scale, else -1."""
    while isinstance(type, ArrayType):
        type = type.element
    if isinstance(type, NumericType) and type != NumericType("numeric"):
        return ((type.precision << 16) | type.scale) + 4
    return -1


def own(types: tuple[Type, ...]) -> dict[Type, PgType]:
    """Types for those of ours that PostgreSQL does not know, each with its array's."""
    made: dict[Type, PgType] = {}
    for type in types:
        while isinstance(type, ArrayType):
            type = type.element
        if type not in made and known(type) is None:
            oid = FIRST_OWN + 2 * len(made)
            made[type] = PgType(oid, str(type), str(type), array=oid + 1)
    return made


def shown(type: Type, own: dict[Type, PgType]) -> PgType:
    """The type of a column, among those PostgreSQL knows and those made for the model."""
    if found := known(type):
        return found
    if isinstance(type, ArrayType):
        element = shown(type.element, own)
        return _array(element) if element.array else element
    return own[type]


def arrays(own: dict[Type, PgType]) -> list[PgType]:
    """The own types and their arrays, as pg_type lists them."""
    return [each for type in own.values() for each in (type, _array(type))]
