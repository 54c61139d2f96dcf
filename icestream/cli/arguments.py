"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

from icestream.config import (
    DEFAULT_HOME,
    EngineSettings,
    Home,
    Kind,
    SettingInfo,
    engine_settings,
)
from icestream.errors import ConfigError
from icestream.sql.options import seconds


def add_home(parser: argparse.ArgumentParser) -> None:
    """--home DIR"""
    parser.add_argument(
        "--home",
        metavar="DIR",
        default=os.environ.get("ICESTREAM_HOME", DEFAULT_HOME),
        help=f"where the engine keeps its state (default: $ICESTREAM_HOME or {DEFAULT_HOME})",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options of commands that start Spark: the home, and a flag for every engine setting."""
    add_home(parser)
    for setting in engine_settings():
        parser.add_argument(
            setting.flag,
            dest=setting.name,
            metavar="|".join(setting.choices) or _METAVARS[setting.kind],
            default=setting.default,
            help=f"{setting.help} (default: %(default)s)",
        )


def add_allow_path(parser: argparse.ArgumentParser, default: str | None) -> None:
    """--allow-path DIR, which may be given several times. `default` is what is allowed without it."""
    shown = "nothing" if default is None else "the working directory"
    parser.add_argument(
        "--allow-path",
        dest="allow_paths",
        metavar="DIR",
        action="append",
        help=f"a directory whose files statements may read and write; may be repeated (default: {shown})",
    )
    parser.set_defaults(allowed_by_default=[] if default is None else [default])


def allowed_paths(args: argparse.Namespace) -> list[str]:
    """The directories that statements may use."""
    paths: list[str] = args.allow_paths or args.allowed_by_default
    for path in paths:
        if not Path(path).expanduser().is_dir():
            raise ConfigError(f"--allow-path {path}: there is no such directory")
    return paths


def home_of(args: argparse.Namespace) -> Home:
    """The home that was named."""
    return Home.at(args.home)


def script_at(path: Path) -> str:
    """The SQL of a script, or of a Kafka Connect configuration (.json) turned into it."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path} cannot be read: {reason}") from error
    if path.suffix != ".json":
        return text
    from icestream.kafka_connect import script_of

    return script_of(text, str(path))


def settings_of(args: argparse.Namespace) -> EngineSettings:
    """The engine settings that were given."""
    values = {s.name: _value(s, getattr(args, s.name)) for s in engine_settings()}
    return EngineSettings(**values)


def _value(setting: SettingInfo, text: str) -> Any:
    try:
        match setting.kind:
            case "text":
                return text
            case "size":
                if not re.fullmatch(r"\d+[kmgtKMGT]?b?", text):
                    raise ValueError(text)
                return text
            case "duration":
                return seconds(text)
            case "number":
                if int(text) < 1:
                    raise ValueError(text)
                return int(text)
            case "choice":
                if text not in setting.choices:
                    raise ValueError(text)
                return text
    except ValueError:
        accepted = ", ".join(setting.choices) or _ACCEPTS[setting.kind]
        raise ConfigError(f"{setting.flag} accepts {accepted}, not {text!r}") from None


_METAVARS: dict[Kind, str] = {"text": "URL", "size": "SIZE", "duration": "TIME", "number": "N"}
_ACCEPTS: dict[Kind, str] = {
    "text": "a text",
    "size": "a size such as 2g",
    "duration": "a duration such as 500ms or 10s",
    "number": "a whole number above 0",
}
