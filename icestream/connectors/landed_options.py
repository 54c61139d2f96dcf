"""The options of Spark's streaming sources: which formats there are, and which options each of them takes.

An option that is not listed may read or move files that nobody has allowed (a schema file, an archive directory) or
load code, so only listed ones reach Spark. Spark's socket source is not listed: it would connect to any host and port.
"""

from __future__ import annotations

from collections.abc import Mapping

from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.file_access import NamedFile, local_path
from icestream.sql.options import OptionSpec, PrefixSpec, Settings, Spec

_FILES = (
    "path", "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly",
    "maxFileAge", "maxCachedFiles", "discardCachedInputRatio", "pathGlobFilter",
    "recursiveFileLookup", "ignoreCorruptFiles", "ignoreMissingFiles",
)  # fmt: skip
_TEXTS = (
    "mode", "columnNameOfCorruptRecord", "dateFormat", "timestampFormat", "timestampNTZFormat",
    "timeZone", "locale", "encoding", "charset", "lineSep", "multiLine", "samplingRatio",
)  # fmt: skip

FORMATS: Mapping[str, tuple[str, ...]] = {
    "rate": ("rowsPerSecond", "rampUpTime", "numPartitions"),
    "rate-micro-batch": (
        "rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch",
    ),
    "text": (*_FILES, "wholetext", "lineSep", "encoding"),
    "json": (
        *_FILES, *_TEXTS, "primitivesAsString", "prefersDecimal", "allowComments",
        "allowUnquotedFieldNames", "allowSingleQuotes", "allowNumericLeadingZeros",
        "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars",
        "allowNonNumericNumbers", "dropFieldIfAllNull",
    ),
    "csv": (
        *_FILES, *_TEXTS, "sep", "delimiter", "header", "quote", "escape", "comment", "nullValue",
        "nanValue", "positiveInf", "negativeInf", "emptyValue", "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace", "maxColumns", "maxCharsPerColumn", "enforceSchema",
        "unescapedQuoteHandling", "charToEscapeQuoteEscaping",
    ),
    "xml": (
        *_FILES, *_TEXTS, "rowTag", "attributePrefix", "valueTag", "nullValue", "wildcardColName",
        "excludeAttribute", "treatEmptyValuesAsNulls", "ignoreNamespace",
        "ignoreSurroundingSpaces",
    ),
    "parquet": (*_FILES, "mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "orc": (*_FILES, "mergeSchema"),
}  # fmt: skip
"""Spark's short name → its options."""

_INSTEAD = {"kafka": "connector = 'kafka'", "iceberg": "connector = 'iceberg'"}

OPTIONS: tuple[Spec, ...] = (
    OptionSpec("format", required=True, help="Spark's streaming source: " + ", ".join(FORMATS)),
    PrefixSpec("option.", "options of that source"),
    OptionSpec("landing.interval", "seconds", 1.0, "time between two looks at the source", least=0),
    OptionSpec("source_rate_limit", "int", help="rows a second that are taken at most", least=1),
)


def check(settings: Settings) -> None:
    """A format and options that are listed."""
    format = settings.string("format").lower()
    if format not in FORMATS:
        remedy = _INSTEAD.get(format) or did_you_mean(format, FORMATS)
        raise NotSupportedError(
            f"format = {format!r} as a source",
            place=settings.place("format"),
            remedy=remedy or "the formats are " + ", ".join(FORMATS),
        )
    known = {name.lower(): name for name in FORMATS[format]}
    seen: set[str] = set()
    for name in settings.under("option."):
        if name.lower() not in known:
            raise SqlError(
                f"{settings.what}: format = '{format}' does not take option.{name}",
                place=settings.place(f"option.{name}"),
                remedy=did_you_mean(name, FORMATS[format])
                or "it takes " + ", ".join(FORMATS[format]),
            )
        if name.lower() in seen:
            raise SqlError(
                f"{settings.what}: option.{name} is there twice",
                place=settings.place(f"option.{name}"),
            )
        seen.add(name.lower())
    _check_path(settings, format)


def _check_path(settings: Settings, format: str) -> None:
    name, path = _path(settings)
    if path is None and "path" in FORMATS[format]:
        raise SqlError(f"{settings.what}: format = '{format}' needs option.path")
    if path is None:
        return
    local = local_path(path)
    if local is None and not path.lower().startswith(("s3://", "s3a://", "hdfs://")):
        raise NotSupportedError(
            "option.path on " + path.partition(":")[0] + ":", place=settings.place(name)
        )
    if local is not None and (not local.startswith("/") or local.startswith("//")):
        raise SqlError(
            f"option.path accepts an absolute path, not {path!r}", place=settings.place(name)
        )


def _path(settings: Settings) -> tuple[str, str | None]:
    """The option that names the directory, in any case, and its value."""
    for name, value in settings.under("option.").items():
        if name.lower() == "path":
            return f"option.{name}", value
    return "option.path", None


def named_files(settings: Settings) -> list[NamedFile]:
    """The directory of a file format, with the wildcards that Spark expands."""
    name, path = _path(settings)
    local = local_path(path) if path is not None else None
    if local is None:
        return []
    return [NamedFile(name, local, settings.place(name), is_listed_by_spark=True)]
