"""SET takes the settings that scripts for RisingWave write, where ignoring them does no harm."""

from __future__ import annotations

import pytest

from icestream.catalog.setting_registry import SETTINGS, read_home_setting
from icestream.config import Home
from icestream.engine import Engine
from icestream.errors import NotSupportedError, SqlError
from icestream.sql import parse
from icestream.sql import statements as st


def checked(text: str) -> str:
    (statement,) = parse(text, "x.sql")
    assert isinstance(statement, st.SetVariable)
    return read_home_setting(statement)[0].note


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("SET iceberg_engine_connection = 'public.c'", "outside the embedded lake, not there yet"),
        ("SET rw_implicit_flush TO true", "INSERT, UPDATE and DELETE return when"),
        ("SET background_ddl = on", "in the background"),
        ("SET streaming_parallelism = 2", "a hint, which has no effect"),
        ("SET STREAMING_PARALLELISM_FOR_SINK TO DEFAULT", "a hint"),
        ("SET TIME ZONE 'utc'", "always so"),
        ("SET search_path TO public", "always so"),
        ("SET extra_float_digits = 3", "no effect"),
    ],
)
def test_what_is_accepted_and_why_it_does_nothing(text: str, note: str) -> None:
    assert note in checked(text)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SET streaming_paralelism = 2", SqlError, "did you mean 'streaming_parallelism'?"),
        ("SET nothing_like_it = 2", SqlError, "SHOW ALL lists the settings"),
        ("SET background_ddl = maybe", SqlError, "requires a Boolean value"),
        ("SET timezone = 'Europe/Berlin'", NotSupportedError, "one of UTC"),
        ("SET visibility_mode = 'all'", NotSupportedError, "one of checkpoint"),
        ("SET source_rate_limit = 100", NotSupportedError, "an option of a source"),
    ],
)
def test_what_is_refused(text: str, error: type[SqlError], message: str) -> None:
    with pytest.raises(error) as caught:
        checked(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.sql:1:")


def test_every_default_is_accepted() -> None:
    for spec in SETTINGS.values():
        if spec.scope != "fixed":
            (statement,) = parse(f"SET {spec.name} = '{spec.default}'", "x.sql")
            assert isinstance(statement, st.SetVariable)
            assert read_home_setting(statement) == (spec, spec.default)


@pytest.mark.parametrize("value", ["'on'", "TRUE", "yes", "1", "t"])
def test_every_boolean_takes_the_spellings_of_postgresql(value: str) -> None:
    names = [s.key for s in SETTINGS.values() if s.type in ("boolean", "true_false")]
    assert {"rw_implicit_flush", "background_ddl", "rw_enable_share_plan"} <= set(names)
    for name in names:
        spec = SETTINGS[name]
        if spec.scope != "fixed":
            assert spec.read(value.strip("'")) in ("on", "true")


def test_a_flush_is_asked_for_in_any_spelling(tmp_path) -> None:
    with Engine(Home.at(tmp_path / "home"), env={}) as engine:
        assert not engine.flushes
        engine.execute("SET rw_implicit_flush = 'on'")
        assert engine.flushes
        assert engine.execute("SHOW rw_implicit_flush")[0].rows == [("true",)]
        engine.execute("ALTER SYSTEM SET rw_implicit_flush = off")
        assert not engine.flushes
        engine.execute("ALTER SYSTEM RESET rw_implicit_flush")
        with pytest.raises(SqlError, match="cannot be changed"):
            engine.execute("SET server_version = '99'")


def test_set_and_show(tmp_path) -> None:
    with Engine(Home.at(tmp_path / "home"), env={}) as engine:
        assert engine.execute("SHOW timezone")[0].rows == [("UTC",)]
        message = engine.execute("SET iceberg_engine_connection = 'public.c'")[0].message
        assert message == "SET (takes effect with tables outside the embedded lake, not there yet)"
        assert engine.execute("SHOW iceberg_engine_connection")[0].rows == [("public.c",)]
        assert engine.execute("SET iceberg_engine_connection TO DEFAULT")[0].message == "SET"
        rows = engine.execute("SHOW ALL")[0].rows
        assert [r[0] for r in rows] == sorted(SETTINGS)
        with pytest.raises(SqlError, match="there is no setting"):
            engine.plan("SET iceberg_connection = 'c'")
