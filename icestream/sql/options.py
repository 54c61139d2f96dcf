"""Options: what a connector declares, and the check of what was written against it.

A connector lists `OptionSpec`s (and `PrefixSpec`s for families such as `properties.*`); `check` turns the
options of a statement into `Settings`: typed, with defaults, with `${NAME}` and SECRET resolved. Unknown
options are errors, never ignored. Settings never print a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.secrecy import HIDDEN, is_secret_key, remember_secret, without_passwords
from icestream.sql.environment import placeholders, resolve
from icestream.sql.statements import Name, Option, Options

Kind = Literal["string", "int", "float", "bool", "seconds", "json", "list"]
Secrets = Callable[[Name], str]

_ACCEPTS: dict[Kind, str] = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "seconds": "a duration such as 10, '500ms', '10s', '5 min', '1h' or '1 day'",
    "json": "JSON",
    "list": "names with commas between them",
}
_BOOLEANS = {
    "true": True, "t": True, "on": True, "yes": True, "1": True,
    "false": False, "f": False, "off": False, "no": False, "0": False,
}  # fmt: skip
_UNITS = {
    "ms": 0.001, "msec": 0.001, "millisecond": 0.001,
    "": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0,
    "h": 3600.0, "hr": 3600.0, "hour": 3600.0,
    "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True)
class OptionSpec:
    """One option: its name, the kind of its value, what it is when it is not given, and what it does."""

    name: str
    kind: Kind = "string"
    default: Any = None
    help: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    secret: bool = False
    least: float | None = None  # of a number or duration


@dataclass(frozen=True)
class PrefixSpec:
    """A family of options passed through as text: `prefix` + one of `allow` (empty: anything)."""

    prefix: str  # with its dot: "properties."
    help: str = ""
    allow: tuple[str, ...] = ()


Spec = OptionSpec | PrefixSpec


@dataclass(frozen=True)
class Setting:
    """One resolved value: where it was written (None: the default), and whether it may be shown."""

    value: Any
    place: Place | None = None
    hidden: bool = False

    def __repr__(self) -> str:
        return HIDDEN if self.hidden else without_passwords(repr(self.value))

    def __str__(self) -> str:
        return HIDDEN if self.hidden else without_passwords(str(self.value))


@dataclass(frozen=True, repr=False)
class Settings(Mapping[str, Any]):
    """The checked options of one object, by their canonical names.

    Every declared option is there, with its default if it was not given; of a family, those given.
    """

    what: str
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={setting!r}" for name, setting in self.settings.items())
        return f"Settings({self.what}: {shown})"

    def given(self, name: str) -> bool:
        """Whether the option was written, rather than left to its default."""
        return name in self.settings and self.settings[name].place is not None

    def place(self, name: str) -> Place | None:
        """Where the option's value stands, for errors that a connector finds later."""
        return self.settings[name].place if name in self.settings else None

    def hidden(self, name: str) -> bool:
        """Whether the value must not be shown."""
        return name in self.settings and self.settings[name].hidden

    def string(self, name: str) -> str:
        """The text of an option that is required or has a default."""
        return str(self._present(name))

    def optional(self, name: str) -> str | None:
        """The text of an option, or None."""
        value = self[name]
        return None if value is None else str(value)

    def integer(self, name: str) -> int:
        """The whole number of an option that is required or has a default."""
        return int(self._present(name))

    def number(self, name: str) -> float:
        """The number, or the seconds, of an option that is required or has a default."""
        return float(self._present(name))

    def boolean(self, name: str) -> bool:
        """The truth value of an option; not given and without default: false."""
        return bool(self[name])

    def list(self, name: str) -> tuple[str, ...]:
        """The names of a list; not given: none."""
        return tuple(self[name] or ())

    def under(self, prefix: str) -> dict[str, str]:
        """The options of a family that were given, without the prefix."""
        return {
            name.removeprefix(prefix): str(setting.value)
            for name, setting in self.settings.items()
            if name.startswith(prefix) and setting.place
        }

    def shown(self) -> dict[str, str]:
        """What was given, as it may be shown to anybody."""
        return {name: str(setting) for name, setting in self.settings.items() if setting.place}

    def _present(self, name: str) -> Any:
        if (value := self[name]) is None:
            raise SqlError(f"{self.what} needs the option {name}", object=self.what)
        return value


def check(
    options: Options,
    specs: Sequence[Spec],
    *,
    what: str,
    env: Mapping[str, str],
    secrets: Secrets | None = None,
    place: Place | None = None,
) -> Settings:
    """The settings that the options of one object give; `what` names it in errors ("source s").

    `place` is where an option that is missing is reported: the statement's. Raises a SqlError at the
    option (unknown, twice) or at its value (not what is accepted).
    """
    declared = [spec for spec in specs if isinstance(spec, OptionSpec)]
    by_name = {name: spec for spec in declared for name in (spec.name, *spec.aliases)}
    families = [spec for spec in specs if isinstance(spec, PrefixSpec)]
    found: dict[str, Setting] = {}
    for option in options.values():
        known: Spec = by_name.get(option.key) or _in_family(option, families, declared, what)
        name = known.name if isinstance(known, OptionSpec) else option.key
        if name in found:
            raise SqlError(f"option {name} is there twice, as {option.key} too", place=option.place)
        found[name] = _setting(option, known, env, secrets)
    settings: dict[str, Setting] = {}
    for spec in declared:
        if spec.name in found:
            settings[spec.name] = found.pop(spec.name)
        elif spec.required:
            raise SqlError(
                f"{what} needs the option {spec.name}",
                place=place,
                object=what,
                remedy=f"{spec.name} = '…': {spec.help}" if spec.help else None,
            )
        else:
            settings[spec.name] = Setting(spec.default)
    return Settings(what, {**settings, **found})


def _in_family(
    option: Option, families: list[PrefixSpec], declared: list[OptionSpec], what: str
) -> PrefixSpec:
    """The family of an option that is not declared by itself; an unknown option is an error."""
    known = [name for spec in declared for name in (spec.name, *spec.aliases)]
    for family in families:
        rest = option.key.removeprefix(family.prefix)
        if option.key.startswith(family.prefix) and (rest in family.allow or not family.allow):
            return family
        known += [family.prefix + name for name in family.allow]
    listed = [*(spec.name for spec in declared), *(f"{family.prefix}*" for family in families)]
    raise SqlError(
        f"unknown option {option.key} of {what}",
        place=option.place,
        object=what,
        remedy=did_you_mean(option.key, known) or "the options are " + ", ".join(listed),
    )


def _setting(
    option: Option, spec: Spec, env: Mapping[str, str], secrets: Secrets | None
) -> Setting:
    hidden = is_secret_key(option.key) or (isinstance(spec, OptionSpec) and spec.secret)
    if option.secret:
        if not secrets:
            raise SqlError("a SECRET cannot be used here", place=option.value_place)
        if option.secret_as_file:
            raise NotSupportedError(
                f"SECRET {option.secret} AS FILE",
                place=option.value_place,
                remedy="name a file that is there, without SECRET",
            )
        text, hidden = secrets(option.secret), True
    else:
        text = resolve(option.value, env, option.value_place)
    if hidden or without_passwords(text) != text:
        remember_secret(text)
    hidden = hidden or any(True for _ in placeholders(option.value))
    if isinstance(spec, PrefixSpec):
        return Setting(text, option.value_place, hidden)
    return Setting(_typed(text, spec, option, hidden), option.value_place, hidden)


def _typed(text: str, spec: OptionSpec, option: Option, hidden: bool) -> Any:
    try:
        value = convert(text, spec.kind)
    except ValueError:
        _refuse(text, _ACCEPTS[spec.kind], spec, option, hidden)
    if spec.least is not None and value < spec.least:
        _refuse(text, f"at least {spec.least:g}", spec, option, hidden)
    if spec.choices:
        matching = {choice.lower(): choice for choice in spec.choices}
        if str(value).lower() not in matching:
            _refuse(text, "one of " + ", ".join(spec.choices), spec, option, hidden)
        value = matching[str(value).lower()]
    return value


def _refuse(text: str, accepted: str, spec: OptionSpec, option: Option, hidden: bool) -> NoReturn:
    shown = "this value" if hidden else repr(without_passwords(text))
    raise SqlError(
        f"{option.key} accepts {accepted}, not {shown}",
        place=option.value_place,
        remedy=None if hidden else did_you_mean(text, spec.choices),
    )


def convert(text: str, kind: Kind) -> Any:
    """The value of a text; ValueError if the text is not of that kind. A duration is in seconds."""
    plain = text.strip()
    match kind:
        case "string":
            return text
        case "int":
            return int(plain)
        case "float":
            return float(plain)
        case "bool":
            if plain.lower() not in _BOOLEANS:
                raise ValueError(text)
            return _BOOLEANS[plain.lower()]
        case "seconds":
            return seconds(plain)
        case "json":
            return json.loads(text)
        case "list":
            names = tuple(name.strip() for name in plain.split(","))
            if not all(names):
                raise ValueError(text)
            return names


def seconds(text: str) -> float:
    """'500ms', '10s', '5 min', '1h', '1 day', or plain seconds; ValueError for anything else."""
    found = _DURATION.fullmatch(text.strip().lower())
    if not found:
        raise ValueError(text)
    unit = found[2] if found[2] in _UNITS else found[2].removesuffix("s")
    if unit not in _UNITS:
        raise ValueError(text)
    return float(found[1]) * _UNITS[unit]
