"""The options of file sources, and which files they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from icestream.errors import SqlError
from icestream.file_access import NamedFile
from icestream.sql.options import OptionSpec, Settings

if TYPE_CHECKING:
    from icestream.connectors.files_identity import Storage

_SHARED: tuple[OptionSpec, ...] = (
    OptionSpec(
        "match_pattern",
        help="which files: *.json (in any folder), logs/2024-*/*.csv, **/part-?.parquet, {a,b}/*.gz",
    ),
    OptionSpec("source_rate_limit", "int", help="records a second that are taken at most", least=1),
)

FILE_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("path", required=True, aliases=("posix_fs.root",), help="the directory, absolute"),
    *_SHARED,
)

S3_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("s3.bucket_name", required=True, help="the bucket"),
    OptionSpec("path", help="a folder in the bucket"),
    OptionSpec("s3.region_name", aliases=("s3.region",), help="the bucket's region"),
    OptionSpec(
        "s3.credentials.access",
        secret=True,
        aliases=("s3.access.key",),
        help="the access key; without it, what the AWS SDK finds by itself",
    ),
    OptionSpec(
        "s3.credentials.secret", secret=True, aliases=("s3.secret.key",), help="the secret key"
    ),
    OptionSpec("s3.endpoint_url", aliases=("s3.endpoint",), help="another server that speaks S3"),
    OptionSpec(
        "s3.path.style.access",
        "bool",
        help="the bucket in the path, not in the host name; the default with s3.endpoint_url",
    ),
    *_SHARED,
)


def check_file(settings: Settings) -> None:
    """An absolute path: a relative one would depend on where the engine was started."""
    if not settings.string("path").startswith("/"):
        raise SqlError(
            f"path accepts an absolute path, not {settings.string('path')!r}",
            place=settings.place("path"),
            remedy="'${PWD}/data' names a directory below the current one",
        )
    _check_pattern(settings)


def check_s3(settings: Settings) -> None:
    """Keys come in pairs; a folder is relative to its bucket."""
    if (settings["s3.credentials.access"] is None) != (settings["s3.credentials.secret"] is None):
        raise SqlError(
            f"{settings.what} needs s3.credentials.access and s3.credentials.secret, both or neither"
        )
    _check_pattern(settings)


def _check_pattern(settings: Settings) -> None:
    pattern = settings.optional("match_pattern")
    if pattern is None:
        return
    if pattern.startswith("/"):
        raise SqlError(
            "match_pattern is relative to the directory, it does not begin with /",
            place=settings.place("match_pattern"),
        )
    if ".." in pattern.split("/"):
        raise SqlError(
            "match_pattern names files below the directory, it has no '..'",
            place=settings.place("match_pattern"),
        )
    try:
        matcher(pattern)
    except ValueError as error:
        raise SqlError(f"match_pattern: {error}", place=settings.place("match_pattern")) from None


def named_files(settings: Settings) -> list[NamedFile]:
    """The directory of a `file` source."""
    return [NamedFile("path", settings.string("path"), settings.place("path"))]


def storage(settings: Settings) -> Storage:
    """Where the files are."""
    from icestream.connectors.files_identity import Storage

    if "s3.bucket_name" not in settings:
        return Storage()
    options = {
        "region": settings["s3.region_name"],
        "access_key": settings["s3.credentials.access"],
        "secret_key": settings["s3.credentials.secret"],
        "endpoint": settings["s3.endpoint_url"],
        "force_virtual_addressing": True if settings["s3.path.style.access"] is False else None,
    }
    given = {k: v for k, v in options.items() if v is not None}
    return Storage(settings.string("s3.bucket_name"), given)


def static_folder(pattern: str | None) -> str:
    """The folders that a pattern names without a wildcard: only they need to be listed."""
    folders = (pattern or "").split("/")[:-1]
    fixed: list[str] = []
    for folder in folders:
        if re.search(r"[*?\[{]", folder):
            break
        fixed.append(folder)
    return "/".join(fixed)


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Whether a path, relative to the directory, is one of the source's files.

    A pattern without `/` is about the file's name alone. Names that begin with . or _, or end in .tmp or
    .crdownload, are files still being written: never.
    """
    compiled = re.compile(_regex(pattern)) if pattern else None

    def matches(path: str) -> bool:
        name = path.rpartition("/")[2]
        if name.endswith((".tmp", ".crdownload")):
            return False
        if any(part.startswith((".", "_")) for part in path.split("/")):
            return False
        return compiled is None or bool(
            compiled.fullmatch(path if "/" in (pattern or "") else name)
        )

    return matches


def _regex(pattern: str) -> str:
    """A shell pattern as a regular expression; ValueError if a bracket is not closed."""
    tokens = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|[{},\[]|.", re.DOTALL)
    plain = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    result, depth = "", 0
    for token in tokens.findall(pattern):
        if token in plain:
            result += plain[token]
        elif token == "{":
            result, depth = result + "(?:", depth + 1
        elif token == "}" and depth:
            result, depth = result + ")", depth - 1
        elif token == "," and depth:
            result += "|"
        elif len(token) > 2:
            inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            result += "[" + ("^" + inside[1:] if inside.startswith("!") else inside) + "]"
        elif token == "[":
            raise ValueError("a [ is not closed")
        else:
            result += re.escape(token)
    if depth:
        raise ValueError("a { is not closed")
    return result
