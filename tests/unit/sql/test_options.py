"""The check of options: types, defaults, suggestions, and no secret in what is printed."""

from __future__ import annotations

import pytest

from icestream.errors import SqlError
from icestream.secrecy import is_secret_key
from icestream.sql import mask
from icestream.sql.options import OptionSpec, PrefixSpec, check, seconds
from tests.unit.sql.helpers import ENV, one

SPECS = (
    OptionSpec("connector", required=True, help="which connector"),
    OptionSpec("topic", aliases=("kafka.topic",), help="the topic"),
    OptionSpec("scan.startup.mode", default="earliest", choices=("earliest", "latest")),
    OptionSpec("port", "int", 5432, least=1),
    OptionSpec("ratio", "float"),
    OptionSpec("snapshot", "bool", True),
    OptionSpec("interval", "seconds", 60.0),
    OptionSpec("extra", "json"),
    OptionSpec("primary_key", "list"),
    OptionSpec("password"),
    OptionSpec("pin", secret=True),
    PrefixSpec("properties.", allow=("group.id", "sasl.jaas.config", "fetch.min.bytes")),
    PrefixSpec("option."),
)


def checked(written: str, secrets=None):
    statement = one(f"create source s with ({written})")
    return check(
        statement.options, SPECS, what="source s", env=ENV, secrets=secrets, place=statement.place
    )


def wrong(written: str) -> SqlError:
    before, _, after = written.partition("¦")
    with pytest.raises(SqlError) as caught:
        checked(before + after)
    place = caught.value.place
    assert place is not None
    assert place.column == len("create source s with (") + len(before) + 1
    return caught.value


def test_values_are_typed():
    settings = checked(
        "connector = 'kafka', kafka.topic = 't', scan.startup.mode = 'LATEST', port = '9092', ratio = 0.5,"
        "snapshot = off, interval = '5 min', extra = '{\"a\": [1]}', primary_key = 'a, b',"
        "properties.group.id = 'g', option.any.Thing = 3"
    )
    assert dict(settings) == {
        "connector": "kafka",
        "topic": "t",
        "scan.startup.mode": "latest",
        "port": 9092,
        "ratio": 0.5,
        "snapshot": False,
        "interval": 300.0,
        "extra": {"a": [1]},
        "primary_key": ("a", "b"),
        "password": None,
        "pin": None,
        "properties.group.id": "g",
        "option.any.thing": "3",
    }
    assert settings.under("properties.") == {"group.id": "g"}
    assert settings.given("port")
    assert settings.integer("port") == 9092
    assert settings.number("interval") == 300.0
    assert settings.list("primary_key") == ("a", "b")


def test_defaults():
    settings = checked("connector = 'x'")
    assert settings.integer("port") == 5432
    assert settings.boolean("snapshot") is True
    assert settings.optional("topic") is None
    assert not settings.given("port")
    assert settings.place("port") is None
    assert settings.under("properties.") == {}
    with pytest.raises(SqlError, match="source s needs the option topic"):
        settings.string("topic")


@pytest.mark.parametrize(
    ("written", "message", "remedy"),
    [
        (
            "connector = 'x', ¦tpic = 'a'",
            "unknown option tpic of source s",
            "did you mean 'topic'?",
        ),
        ("connector = 'x', ¦zzzzzz = 'a'", "unknown option zzzzzz", "properties.*"),
        ("connector = 'x', ¦properties.grup.id = 1", "unknown option", "'properties.group.id'"),
        ("connector = 'x', topic = 'a', ¦kafka.topic = 'b'", "topic is there twice", None),
        ("connector = 'x', port = ¦'many'", "port accepts a whole number, not 'many'", None),
        ("connector = 'x', port = ¦'0'", "port accepts at least 1", None),
        ("connector = 'x', snapshot = ¦maybe", "accepts true or false, not 'maybe'", None),
        ("connector = 'x', interval = ¦'1 parsec'", "accepts a duration such as", None),
        ("connector = 'x', extra = ¦'{'", "accepts JSON", None),
        ("connector = 'x', primary_key = ¦'a,,b'", "names with commas", None),
        (
            "connector = 'x', scan.startup.mode = ¦'erliest'",
            "one of earliest, latest",
            "'earliest'",
        ),
        ("connector = 'x', password = ¦secret pw", "a SECRET cannot be used here", None),
    ],
)
def test_wrong_options(written, message, remedy):
    error = wrong(written)
    assert message in error.message
    if remedy:
        assert error.remedy is not None
        assert remedy in error.remedy


def test_a_missing_option_is_reported_at_the_statement():
    with pytest.raises(SqlError, match="source s needs the option connector") as caught:
        checked("topic = 'x'")
    assert caught.value.place is not None
    assert caught.value.place.column == 1


def test_settings_do_not_print_secrets():
    settings = checked(
        "connector = 'jdbc://joe:hunter2@host', password = 'hunter2', pin = '1234', topic = '${PG_PASSWORD}',"
        "option.x = secret s, properties.sasl.jaas.config = 'password=hunter2'",
        secrets=lambda name: f"hunter2 of {name}",
    )
    assert settings["password"] == settings["topic"] == "hunter2"
    assert settings["option.x"] == "hunter2 of s"
    for printed in (repr(settings), str(settings), repr(settings.settings), str(settings.shown())):
        assert "hunter2" not in printed
        assert "1234" not in printed
    assert settings.hidden("topic")
    assert settings.shown()["connector"] == "jdbc://joe:<hidden>@host"


@pytest.mark.parametrize(
    ("text", "value"),
    [("10", 10), ("500ms", 0.5), ("10 s", 10), ("5min", 300), ("2 hours", 7200), ("1 Day", 86400), ("1.5h", 5400)],
)  # fmt: skip
def test_durations(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "x", "-1", "1 2", "1 parsec", "s"])
def test_no_durations(text):
    with pytest.raises(ValueError, match=r".*"):
        seconds(text)


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("password", True),
        ("s3.secret.key", True),
        ("s3.access.key", True),
        ("catalog.token", True),
        ("catalog.credential", True),
        ("properties.sasl.jaas.config", True),
        ("ssl.keystore.key", True),
        ("private_key", True),
        ("catalog.jdbc.password", True),
        ("primary_key", False),
        ("topic", False),
        ("key.encode", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("private.key.path", False),
        ("sasl.mechanism", False),
    ],
)
def test_secret_keys(key, secret):
    assert is_secret_key(key) is secret


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("create source s with (password = 'hunter2', a = 'b')", "create source s with (password = '<hidden>', a = 'b')"),
        ("create source s with (password = '${PG_PASSWORD}')", None),
        ("create source s with (password = 'x${PG_PASSWORD}')", "create source s with (password = '<hidden>')"),
        ("create source s with (password = secret pw)", None),
        ("create source s with (password = hunter.two)", "create source s with (password = '<hidden>')"),
        ("create source s with (url = 'pg://u:p@h', v = 'pg://u:${N}@h')", "create source s with (url = 'pg://u:<hidden>@h', v = 'pg://u:${N}@h')"),
        ("create secret s with (backend = 'meta') as 'hunter2'", "create secret s with (backend = 'meta') as '<hidden>'"),
        ("alter secret s as $$hunter2$$", "alter secret s as '<hidden>'"),
        ("alter source s connector with (s3.secret.key = E'x\\'')", "alter source s connector with (s3.secret.key = '<hidden>')"),
        ("alter sink s set (catalog.token = 'x')", "alter sink s set (catalog.token = '<hidden>')"),
        ("create source s with (a = 1) format plain encode avro (schema.registry.password = 'x')",
         "create source s with (a = 1) format plain encode avro (schema.registry.password = '<hidden>')"),
        ("create view v as select * from t where (token = 'abc')", None),
        ("create table ${T} (password varchar default 'x')", None),
    ],
)  # fmt: skip
def test_mask(text, masked):
    assert mask(one(text)) == (masked or text)
