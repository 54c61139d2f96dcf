"""The WITH (…) of a statement: the connector it names, the connection it shares, its checked settings."""

from __future__ import annotations

from icestream.catalog.names import Names
from icestream.catalog.objects import Connection
from icestream.errors import Place, SqlError
from icestream.sql import statements as st
from icestream.sql.environment import resolve
from icestream.sql.options import OptionSpec, Settings, Spec, check

CONNECTOR = OptionSpec("connector", help="which connector")


def with_connection(options: st.Options, names: Names) -> st.Options:
    """The options together with those of the connection they name; what is written here wins."""
    if "connection" not in options:
        return options
    connection = _named_connection(options["connection"], names)
    shared = {k: v for k, v in connection.options.items() if k != "type"}
    return {**shared, **options}


def connection_key(options: st.Options, names: Names) -> tuple[str, ...]:
    """The key of the connection that the options name, if they name one."""
    return (_named_connection(options["connection"], names).key,) if "connection" in options else ()


def _named_connection(option: st.Option, names: Names) -> Connection:
    text = resolve(option.value, names.env, option.value_place)
    schema, _, name = text.rpartition(".")
    found = names.find(st.Name(name, schema or None, option.value_place), Connection)
    assert isinstance(found, Connection)
    return found


def connector_name(options: st.Options, what: str, place: Place, names: Names) -> tuple[str, Place]:
    """What the option connector says, and where."""
    option = options.get("connector")
    if option is None:
        raise SqlError(
            f"{what} needs the option connector", place=place, remedy="connector = 'kafka', …"
        )
    return resolve(option.value, names.env, option.value_place), option.value_place


def settings_of(
    options: st.Options, specs: tuple[Spec, ...], what: str, names: Names, place: Place
) -> Settings:
    """The options as the connector's declaration wants them."""
    return check(
        options,
        (CONNECTOR, *specs),
        what=what,
        env=names.env,
        secrets=names.secrets,
        place=place,
    )
