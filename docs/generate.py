"""Writes the tables of the documentation from the code: `python docs/generate.py`.

A page holds markers, `<!-- generated: NAME -->` … `<!-- end -->`; what lies between them is replaced by the
section of that name. A test fails when a page is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from icestream import types as t
from icestream.catalog.bind import SECRET_OPTIONS
from icestream.catalog.setting_registry import SETTINGS
from icestream.catalog.sources import SOURCE_OPTIONS
from icestream.cli import command_line
from icestream.config import Home, engine_settings
from icestream.connectors.formats.registry import FORMATS, SINK_FORMATS
from icestream.connectors.iceberg_options import CONNECTION_OPTIONS
from icestream.connectors.iceberg_sink import NOT_YET
from icestream.connectors.registry import (
    LATER_SINKS,
    LATER_SOURCES,
    SINKS,
    SOURCES,
    sink_connector,
    source_connector,
)
from icestream.dev.jars import GROUPS
from icestream.engine import Engine
from icestream.functions.function import Function
from icestream.functions.registry import THEMES
from icestream.functions.trees import ALIASES
from icestream.plan.derivation import RULES
from icestream.sql.options import OptionSpec, Spec
from icestream.types import Type, stored_spark_type

ROOT = Path(__file__).resolve().parent.parent
MARKED = re.compile(r"(<!-- generated: (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """All pages that may hold markers."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def rendered(text: str) -> str:
    """A page with its sections as they should be; KeyError for a section that does not exist."""
    known = sections()

    def section(found: re.Match[str]) -> str:
        return f"{found[1]}\n{known[found['name']]()}\n\n{found[3]}"

    return MARKED.sub(section, text)


def sections() -> dict[str, Callable[[], str]]:
    """Every section by name."""
    found: dict[str, Callable[[], str]] = {
        "connection options": lambda: options(CONNECTION_OPTIONS),
        "source options": lambda: options(SOURCE_OPTIONS),
        "secret options": lambda: options(SECRET_OPTIONS),
        "settings": settings,
        "variables": variables,
        "commands": commands,
        "functions": functions,
        "types": types,
        "packages": packages,
        "delta rules": delta_rules,
        "later": later,
        "fault matrix": fault_matrix,
    }
    for name in dict.fromkeys(source_connector(n).name for n in SOURCES):
        found[f"source {name}"] = lambda n=name: options(source_connector(n).options)
        found[f"includes {name}"] = lambda n=name: includes(n)
    for name in SINKS:
        fixed = NOT_YET if name == "iceberg" else ()
        found[f"sink {name}"] = lambda n=name, f=fixed: options(sink_connector(n).options, f)
    for (format, encode), declared in FORMATS.items():
        if declared.options:
            found[f"format {format} {encode}"] = lambda o=declared.options: options(o)
    for (format, encode), specs in SINK_FORMATS.items():
        found[f"sink format {format} {encode}"] = lambda o=specs: options(o)
    for name, statement in EXPLAINED.items():
        found[f"explain {name}"] = lambda s=statement: explained(s)
    return found


# -- options -----------------------------------------------------------------------------------------


def options(specs: Sequence[Spec], fixed: Sequence[str] = ()) -> str:
    """A table of options: name, kind, default, what it does. Of `fixed` ones only the default is accepted."""
    rows = (_option(s, s.name in fixed if isinstance(s, OptionSpec) else False) for s in specs)
    return table(("option", "kind", "default", "what it does"), rows)


_KINDS = {"string": "text", "seconds": "duration", "bool": "true, false"}
_SETTING_TYPES = {"string": "text", "boolean": "on, off", "true_false": "true, false"}


def _option(spec: Spec, fixed: bool) -> tuple[str, ...]:
    if not isinstance(spec, OptionSpec):
        allowed = f": {', '.join(f'`{name}`' for name in spec.allow)}" if spec.allow else ""
        return f"`{spec.prefix}*`", "text", "", f"{_plain(spec.help)}{allowed}"
    kind = _KINDS.get(spec.kind, spec.kind)
    if spec.choices:
        kind = ", ".join(f"`{c}`" for c in spec.choices)
    if spec.secret:
        kind += ", secret"
    if spec.required:
        default = "**required**"
    elif spec.default is None:
        default = ""
    else:
        shown = str(spec.default).lower() if isinstance(spec.default, bool) else f"{spec.default}"
        default = f"`{shown}`"
    help = _plain(spec.help)
    if spec.least is not None:
        help += f" (at least {spec.least:g})"
    if spec.aliases:
        help += f"; also written {', '.join(f'`{a}`' for a in spec.aliases)}"
    if fixed:
        help += " — *another value than the default is not supported yet*"
    return f"`{spec.name}`", kind, default, help


def _plain(text: str) -> str:
    """Text in which nothing is taken for a tag or for emphasis."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def includes(name: str) -> str:
    """What INCLUDE can add to a source's columns."""
    found = source_connector(name).includes
    return table(("INCLUDE", "type"), ((f"`{k}`", f"`{v}`") for k, v in found.items()))


def later() -> str:
    """Connectors whose names are known and refused."""
    return (
        f"Sources: {', '.join(f'`{n}`' for n in sorted(LATER_SOURCES))}.\n\n"
        f"Sinks: {', '.join(f'`{n}`' for n in sorted(LATER_SINKS))}."
    )


# -- plans -------------------------------------------------------------------------------------------

SHOP = """
CREATE SOURCE page_views (
  view_id BIGINT, user_id BIGINT, page VARCHAR, viewed_at TIMESTAMPTZ,
  WATERMARK FOR viewed_at AS viewed_at - INTERVAL '5 seconds'
) WITH (connector = 'kafka', topic = 'page_views', properties.bootstrap.server = 'localhost:9092')
FORMAT PLAIN ENCODE JSON;
CREATE TABLE customers (customer_id BIGINT PRIMARY KEY, region VARCHAR)
WITH (connector = 'kafka', topic = 'shop.public.customers', properties.bootstrap.server = 'localhost:9092')
FORMAT DEBEZIUM ENCODE JSON;
CREATE TABLE orders (order_id BIGINT PRIMARY KEY, customer_id BIGINT, amount NUMERIC(12, 2))
WITH (connector = 'kafka', topic = 'shop.public.orders', properties.bootstrap.server = 'localhost:9092')
FORMAT DEBEZIUM ENCODE JSON;
"""
"""What the explained statements read."""

EXPLAINED = {
    "sales": """\
EXPLAIN CREATE MATERIALIZED VIEW sales_by_region AS
SELECT c.region, count(*) AS orders, sum(o.amount) AS total, max(o.amount) AS largest
FROM orders o JOIN customers c ON o.customer_id = c.customer_id
GROUP BY c.region;
""",
    "visits": """\
EXPLAIN CREATE MATERIALIZED VIEW visits AS
SELECT c.region, count(*) AS views
FROM page_views v JOIN customers c ON v.user_id = c.customer_id
GROUP BY c.region HAVING count(*) > 10;
""",
    "closed": """\
EXPLAIN CREATE MATERIALIZED VIEW views_per_minute AS
SELECT window_start, window_end, page, count(*) AS views
FROM TUMBLE(page_views, viewed_at, INTERVAL '1 minute')
GROUP BY window_start, window_end, page
EMIT ON WINDOW CLOSE;
""",
    "sink": """\
EXPLAIN CREATE SINK orders_by_customer AS
SELECT customer_id, count(*) AS orders FROM orders GROUP BY customer_id
WITH (
  connector = 'iceberg', type = 'upsert', database.name = 'shop', table.name = 'orders_by_customer',
  create_table_if_not_exists = 'true'
);
""",
}
"""Statements over the shop whose plans a page shows."""


def delta_rules() -> str:
    """The delta rules by their names in EXPLAIN."""
    width = max(len(rule.name) for rule in RULES) + 3
    lines = (f"{rule.name:{width}}{rule.formula}" for rule in RULES)
    return "```text\n" + "\n".join(lines) + "\n```"


def explained(statement: str) -> str:
    """A statement and what EXPLAIN says of it."""
    with tempfile.TemporaryDirectory() as home, Engine(Home.at(Path(home)), env={}) as engine:
        engine.plan(SHOP)
        (answer,) = engine.execute(statement)
    plan = "\n".join(line.rstrip() for (line,) in answer.rows)
    return f"```sql\n{statement}```\n\n```text\n{plan}\n```"


# -- settings, commands, packages --------------------------------------------------------------------


def settings() -> str:
    """The engine's settings and their flags."""
    rows = [(f"`{s.name}`", f"`{s.flag}`", f"`{s.default}`", s.help) for s in engine_settings()]
    return table(("setting", "flag", "default", "what it does"), rows)


def variables() -> str:
    """What SET accepts."""
    rows = []
    for spec in SETTINGS.values():
        if spec.scope != "fixed":
            values = ", ".join(f"`{v}`" for v in spec.only) or _SETTING_TYPES.get(
                spec.type, spec.type
            )
            default = f"`{spec.default}`" if spec.default else ""
            rows.append((f"`{spec.key}`", spec.scope, default, values, spec.note))
    return table(
        ("setting", "scope", "default", "values outside of a session", "what comes of it"), rows
    )


def commands() -> str:
    """Every command with its arguments and flags."""
    parts = []
    for name, parser in _commands(command_line(), "icestream"):
        rows = [
            (f"`{_spelled(action)}`", (action.help or "") % _values(action))
            for action in parser._actions
            if action.dest != "help"
        ]
        parts.append(f"### `{name}`\n\n{table(('argument', 'what it does'), rows)}")
    return "\n\n".join(parts)


def _commands(
    parser: argparse.ArgumentParser, name: str
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from _commands(inner, f"{name} {word}")
            return
    yield name, parser


def _spelled(action: argparse.Action) -> str:
    value = str(action.metavar or action.dest.upper() if action.nargs != 0 else "")
    if action.choices and not action.metavar:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return f"{value}…" if action.nargs == "*" else value
    return f"{action.option_strings[-1]} {value}".strip()


def _values(action: argparse.Action) -> dict[str, object]:
    return {"default": action.default, "prog": "icestream"}


def packages() -> str:
    """The JVM packages and what they are for."""
    use = {
        "engine": "always",
        "broker": "`make demo`, `icestream dev kafka`, tests",
        "aws": "Glue, and Iceberg tables on S3",
        "connect": "tests: a Kafka Connect worker",
        "debezium": "tests: change events of a real PostgreSQL",
        "rest-fixture": "tests: a REST catalog",
    }
    rows = [(g.name, ", ".join(f"`{p}`" for p in g.packages), use[g.name]) for g in GROUPS.values()]
    return table(("group", "packages", "used by"), rows)


# -- types and functions -----------------------------------------------------------------------------


def fault_matrix() -> str:
    """The newest outcome of every cell of the fault matrix, as `make faults` wrote it."""
    kept = json.loads((ROOT / "docs" / "fault-matrix.json").read_text())
    rows = []
    for fault in kept["faults"]:
        found = [kept["cells"].get(f"{pipeline} / {fault}") for pipeline in kept["pipelines"]]
        rows.append((fault, *(f"{c['outcome']} {c['date']}" if c else "not run" for c in found)))
    return table(("fault", *kept["pipelines"]), rows)


def types() -> str:
    """Every scalar type: its names, and what it is in an Iceberg table."""
    names: dict[Type, list[str]] = {}
    for name in t.scalar_names():
        found = t.scalar(name)
        assert found is not None
        names.setdefault(found, []).append(name)
    rows = []
    for type, written in names.items():
        own = type.name if type.name in written else written[0]
        others = ", ".join(f"`{n}`" for n in written if n != own)
        rows.append((f"`{own}`", others, f"`{_iceberg(type)}`"))
    return table(("type", "also written", "in an Iceberg table"), rows)


def _iceberg(type: Type) -> str:
    spark = stored_spark_type(type).lower()
    return {
        "bigint": "long",
        "timestamp": "timestamptz",
        "timestamp_ntz": "timestamp",
    }.get(spark, spark)


def functions() -> str:
    """All functions and operators, by theme."""
    parts = []
    for theme in THEMES:
        by_name: dict[str, list[Function]] = {}
        for row in theme.ROWS:
            by_name.setdefault(row.name, []).append(row)
        head = (theme.__doc__ or "").splitlines()[0]
        rows = [_function(name, overloads) for name, overloads in by_name.items()]
        title = theme.__name__.rpartition(".")[2].capitalize()
        parts.append(f"## {title}\n\n{head}\n\n{table(('name', 'arguments', 'notes'), rows)}")
    return "\n\n".join(parts)


SPELLED = {
    "subscript": "a[i]",
    "slice": "a[i:j]",
    "array": "ARRAY[…]",
    "in": "IN (…)",
    "~~": "LIKE, ~~",
    "~~*": "ILIKE, ~~*",
    "extract": "extract(field FROM …)",
    "timezone": "AT TIME ZONE, timezone",
    "similar to": "SIMILAR TO",
}
TOGETHER = {
    "number": ("smallint", "integer", "bigint", "numeric", "real", "double precision"),
    "whole number": ("smallint", "integer", "bigint"),
    "scalar": (
        "number", "boolean", "varchar", "bytea", "date", "time", "timestamp", "timestamptz", "interval",
    ),
}  # fmt: skip
"""One word for several types, in the order in which they are looked for."""


def _function(name: str, overloads: Sequence[Function]) -> tuple[str, ...]:
    also = [a for a, of in ALIASES.items() if of == name]
    written = SPELLED.get(name, name.upper() if " " in name or name in WORDS else name)
    spelled = ", ".join(f"`{n}`" for n in (written, *also))
    notes = []
    if any(o.set_returning for o in overloads):
        notes.append("gives several rows")
    if not all(o.pure for o in overloads):
        notes.append("not the same at every call")
    if any(o.fallible for o in overloads):
        notes.append("can fail")
    return spelled, "; ".join(_signatures(overloads)), ", ".join(notes)


WORDS = ("and", "or", "not")


def _signatures(overloads: Sequence[Function]) -> Iterator[str]:
    """Overloads of equal length are put together when they differ in one argument at most."""
    groups: list[list[list[str]]] = []
    for overload in overloads:
        args = [_param(p) for p in overload.args]
        if overload.variadic and args:
            args[-1] += " …"
        for group in groups:
            differing = [
                i for i, a in enumerate(args) if len(args) == len(group) and a not in group[i]
            ]
            alone = len(args) == len(group) and all(
                len(group[i]) == 1 for i in range(len(args)) if i not in differing
            )
            same = bool(args) and len(set(args)) == 1 and all(g == group[0] for g in group)
            if len(args) == len(group) and ((len(differing) == 1 and alone) or same):
                for i, arg in enumerate(args):
                    if arg not in group[i]:
                        group[i].append(arg)
                break
            if len(args) == len(group) and not differing:
                break
        else:
            groups.append([[a] for a in args])
    for group in groups:
        yield "(" + ", ".join(_union(names) for names in group) + ")"


def _param(param: object) -> str:
    return "numeric" if isinstance(param, t.NumericType) else str(param)


def _union(names: list[str]) -> str:
    """Type names, with one word for those that often go together."""
    for word, members in TOGETHER.items():
        if all(m in names for m in members):
            names = [word, *(n for n in names if n not in members)]
    return " or ".join(names)


# -- Markdown ----------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    """Rewrite the pages; with --check, only say which are out of date."""
    check = "--check" in sys.argv[1:]
    stale = []
    for path in pages():
        text = path.read_text()
        if (wanted := rendered(text)) != text:
            stale.append(path.relative_to(ROOT))
            if not check:
                path.write_text(wanted)
    for path in stale:
        print(f"{path} {'is out of date' if check else 'was written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
