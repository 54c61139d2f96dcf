"""The documentation keeps step with the code: generated tables, nothing undocumented, SQL that parses, links that lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from icestream.cli import FENCED
from icestream.cli.demo import script
from icestream.config import EngineSettings
from icestream.connectors.formats.registry import FORMATS, SINK_FORMATS
from icestream.connectors.registry import SINKS, SOURCES, sink_connector, source_connector
from icestream.functions.registry import THEMES
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.sql.options import OptionSpec, Spec

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    "source kafka": "kafka.md",
    "source file": "files.md",
    "source s3": "files.md",
    "source datagen": "datagen.md",
    "source iceberg": "iceberg-source.md",
    "source spark": "spark.md",
    "sink iceberg": "iceberg-sink.md",
    "sink kafka": "kafka-sink.md",
    "sink print": "print.md",
    "sink blackhole": "blackhole.md",
}
"""Connector → its page."""


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = load()
MARKDOWN = generate.pages()


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# -- in step with the code ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", MARKDOWN, ids=name)
def test_generated_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text()
    assert generate.rendered(text) == text, f"python docs/generate.py would change {name(page)}"


def connectors() -> dict[str, tuple[Spec, ...]]:
    sources = {f"source {(c := source_connector(n)).name}": c.options for n in SOURCES}
    return sources | {f"sink {n}": sink_connector(n).options for n in SINKS}


def test_every_connector_has_a_page() -> None:
    assert set(PAGES) == set(connectors())
    index = (DOCS / "connectors" / "index.md").read_text()
    for page in PAGES.values():
        assert f"({page})" in index


@pytest.mark.parametrize("connector", PAGES)
def test_every_option_is_documented(connector: str) -> None:
    text = (DOCS / "connectors" / PAGES[connector]).read_text()
    for option in connectors()[connector]:
        assert option.help, f"an option of {connector} does not say what it does: {option}"
        if isinstance(option, OptionSpec):
            assert f"| `{option.name}` |" in text
            assert all(f"`{alias}`" in text for alias in option.aliases)
        else:
            assert f"| `{option.prefix}*` |" in text


def test_every_format_option_is_documented() -> None:
    text = (DOCS / "sql" / "create-source.md").read_text()
    for format in FORMATS.values():
        for option in format.options:
            assert option.help
            assert f"| `{option.name}` |" in text


def test_every_option_of_a_sink_format_is_documented() -> None:
    text = (DOCS / "connectors" / "kafka-sink.md").read_text()
    for (format, encode), options in SINK_FORMATS.items():
        assert f"<!-- generated: sink format {format} {encode} -->" in text
        assert all(option.help for option in options)


def test_every_setting_is_documented() -> None:
    text = (DOCS / "operations.md").read_text()
    for field in fields(EngineSettings):
        assert f"| `{field.name}` |" in text


def test_every_flag_is_documented() -> None:
    text = (DOCS / "operations.md").read_text()
    for command, parser in generate._commands(generate.command_line(), "icestream"):
        section = text[text.index(f"### `{command}`") :].split("\n### ")[0]
        for action in parser._actions:
            if action.dest != "help":
                assert action.help, f"{command}: {action.dest} has no help"
                flag = action.option_strings[-1] if action.option_strings else action.metavar
                assert (flag or action.dest.upper()) in section


def test_exit_codes_are_documented() -> None:
    text = (DOCS / "operations.md").read_text()
    for code in (0, 1, 2, FENCED, 130):
        assert f"\n| {code} | " in text


def test_environment_variables_are_documented() -> None:
    used = set()
    for path in (ROOT / "icestream").rglob("*.py"):
        used |= set(re.findall(r"environ\W+(?:get\()?\W*(ICESTREAM_\w+)", path.read_text()))
    documented = "".join(p.read_text() for p in DOCS.glob("*.md"))
    assert used
    assert not {variable for variable in used if variable not in documented}


def test_every_function_is_documented() -> None:
    text = (DOCS / "sql" / "functions.md").read_text()
    for theme in THEMES:
        for function in theme.ROWS:
            spelled = generate.SPELLED.get(function.name, function.name).replace("|", "\\|")
            assert f"`{spelled}`".lower() in text.lower()


# -- examples in the text ----------------------------------------------------------------------------


def blocks(language: str) -> Iterator[tuple[Path, int, str]]:
    for page in MARKDOWN:
        text = page.read_text()
        for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            yield page, text[: found.start(1)].count("\n") + 1, found[1]


ENVIRONMENT = {
    "KAFKA": "localhost:9092", "TOPIC": "t", "KAFKA_PASSWORD": "x", "CATALOG_CREDENTIAL": "x",
    "DATA": "/data",
}  # fmt: skip
SQL = [(f"{name(page)}:{line}", text) for page, line, text in blocks("sql")]


@pytest.mark.parametrize(("place", "text"), SQL, ids=[place for place, _ in SQL])
def test_sql_in_the_documentation_parses(place: str, text: str) -> None:
    assert parse(text, place, ENVIRONMENT)


def test_connectors_of_the_documentation_take_their_options(tmp_path) -> None:
    """CREATE SOURCE and TABLE bind by themselves; what stands on other objects only parses."""
    from icestream.catalog.catalog import Catalog
    from icestream.catalog.store import Store
    from icestream.config import Home
    from icestream.file_access import FileAccess

    bound = 0
    for place, text in SQL:
        home = Home.at(tmp_path / str(bound))
        catalog = Catalog(Store(home), ENVIRONMENT, FileAccess.of(home.root, ["/"]))
        for statement in parse(text, place, ENVIRONMENT):
            if isinstance(statement, st.CreateSecret | st.CreateSource | st.CreateTable):
                catalog.learn(catalog.examine(statement))
                bound += 1
    assert bound > 10


EXAMPLES = sorted(ROOT.glob("examples/*/*.sql"))


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_examples_bind(path: Path, tmp_path) -> None:
    from icestream.config import Home
    from icestream.engine import Engine

    with Engine(Home.at(tmp_path), env=ENVIRONMENT, allow_paths=["/"]) as engine:
        changes = engine.plan(path.read_text(), str(path))
    assert changes


def test_every_example_has_a_readme() -> None:
    assert len(EXAMPLES) >= 3
    for path in EXAMPLES:
        assert path.with_name("README.md").exists()


def test_the_demo_is_the_clickstream_example() -> None:
    assert script() == (ROOT / "examples" / "clickstream" / "pipeline.sql").read_text()


@pytest.mark.parametrize("place", [f"{name(p)}:{n}" for p, n, _ in blocks("python")])
def test_python_in_the_documentation_compiles(place: str) -> None:
    (text,) = [t for p, n, t in blocks("python") if f"{name(p)}:{n}" == place]
    compile(text, place, "exec")


# -- links -------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


@pytest.mark.parametrize("page", MARKDOWN, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor in anchors(found), f"{name(page)} links to {target}"


# -- files that exist --------------------------------------------------------------------------------

FILE_NAME = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w.-]+\.(?:py|md|toml|lock|yaml))`")


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_guides_name_exist(page: str) -> None:
    named = set(FILE_NAME.findall((ROOT / page).read_text()))
    assert len(named) > 15
    missing = [
        file
        for file in named
        if not (ROOT / file).exists()
        and not (ROOT / "icestream" / file).exists()
        and ("/" in file or not any((ROOT / "icestream").rglob(file)))
    ]
    assert not missing
