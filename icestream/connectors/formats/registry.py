"""FORMAT … ENCODE …: which pairs there are, the options of each, and the decoder it gives.

Nothing is imported until a decoder is asked for, so that statements can be checked without Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from icestream.connectors.formats import ChangeDecoder, Decoder, FieldSpec
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.sql.options import OptionSpec, Settings
from icestream.types import VARCHAR, Type

Factory = Callable[[tuple[FieldSpec, ...], Settings], Decoder]
ChangeFactory = Callable[[tuple[FieldSpec, ...], Settings], ChangeDecoder]


@dataclass(frozen=True)
class Format:
    """One FORMAT and ENCODE. `decoder` and `changes` are both None where the source itself gives typed rows."""

    options: tuple[OptionSpec, ...] = ()
    decoder: Factory | None = None
    changes: ChangeFactory | None = None
    """Set for a format of changes: it needs a table with a primary key."""
    includes: Mapping[str, Type] = field(default_factory=dict)
    """INCLUDE column kinds beside those of the connector → their types, unless the INCLUDE names another."""


def _json(fields: tuple[FieldSpec, ...], settings: Settings) -> Decoder:
    from icestream.connectors.formats.json import JsonDecoder

    return JsonDecoder(fields, settings.string("timestamptz.handling.mode"))


def _csv(fields: tuple[FieldSpec, ...], settings: Settings) -> Decoder:
    from icestream.connectors.formats.csv import CsvDecoder

    headed = not settings.boolean("without_header")
    return CsvDecoder(fields, settings.string("delimiter"), headed)


def _bytes(fields: tuple[FieldSpec, ...], settings: Settings) -> Decoder:
    from icestream.connectors.formats.bytes import BytesDecoder

    return BytesDecoder(fields)


def _upsert_json(fields: tuple[FieldSpec, ...], settings: Settings) -> ChangeDecoder:
    from icestream.connectors.formats.upsert import UpsertDecoder

    return UpsertDecoder(fields, settings.string("timestamptz.handling.mode"))


def _debezium_json(fields: tuple[FieldSpec, ...], settings: Settings) -> ChangeDecoder:
    from icestream.connectors.formats.debezium import DebeziumDecoder

    return DebeziumDecoder(
        fields,
        settings.string("timestamptz.handling.mode"),
        settings.boolean("ignore_key"),
        settings.string("unavailable.value.placeholder"),
        settings.string("decimal.handling.mode"),
    )


JSON_OPTIONS = (
    OptionSpec(
        "timestamptz.handling.mode",
        default="guess_number_unit",
        choices=("guess_number_unit", "micro", "milli", "utc_string", "utc_without_suffix"),
        help="what a timestamptz is in the JSON: a number of that unit (guessed by its size), or text",
    ),
)

CSV_OPTIONS = (
    OptionSpec(
        "without_header",
        "bool",
        False,
        "false: the first line of each file names its columns; messages have no header: true",
    ),
    OptionSpec("delimiter", default=",", help="the character between two fields"),
)

DEBEZIUM_OPTIONS = (
    OptionSpec(
        "ignore_key",
        "bool",
        False,
        "never look at the key of a message: rows are told apart by what the envelope holds alone",
    ),
    OptionSpec(
        "unavailable.value.placeholder",
        default="__debezium_unavailable_value",
        help="what stands for a large value that did not change, as the connector's option of that name says",
    ),
    OptionSpec(
        "decimal.handling.mode",
        default="guess",
        choices=("guess", "precise", "string"),
        help="what text for a numeric is where events have no schema part: bytes in base64 (precise), "
        "a number (string), or whichever it looks like",
    ),
    *JSON_OPTIONS,
)

SOURCE_FIELDS = {"database_name": "db", "schema_name": "schema", "table_name": "table"}
"""INCLUDE … of FORMAT DEBEZIUM → the field of the envelope's source that it is."""

FORMATS: Mapping[tuple[str, str], Format] = {
    ("PLAIN", "JSON"): Format(JSON_OPTIONS, _json),
    ("PLAIN", "CSV"): Format(CSV_OPTIONS, _csv),
    ("PLAIN", "BYTES"): Format((), _bytes),
    ("PLAIN", "PARQUET"): Format(),
    ("UPSERT", "JSON"): Format(JSON_OPTIONS, changes=_upsert_json),
    ("DEBEZIUM", "JSON"): Format(
        DEBEZIUM_OPTIONS,
        changes=_debezium_json,
        includes=dict.fromkeys([*SOURCE_FIELDS, "source"], VARCHAR),
    ),
}

SINK_FORMATS: Mapping[tuple[str, str], tuple[OptionSpec, ...]] = {
    ("PLAIN", "JSON"): (
        OptionSpec(
            "force_append_only", "bool", False, "write inserts and drop updates and deletes"
        ),
    ),
}
"""What sinks can write, with the options of each."""

LATER_SINK_FORMATS = {
    ("PLAIN", "AVRO"), ("PLAIN", "PROTOBUF"), ("PLAIN", "TEMPLATE"), ("PLAIN", "BYTES"),
    ("UPSERT", "JSON"), ("UPSERT", "AVRO"), ("UPSERT", "PROTOBUF"), ("UPSERT", "TEXT"),
    ("UPSERT", "TEMPLATE"), ("DEBEZIUM", "JSON"),
}  # fmt: skip

LATER = {
    ("PLAIN", "AVRO"), ("PLAIN", "PROTOBUF"), ("NATIVE", "NATIVE"),
    ("UPSERT", "AVRO"), ("UPSERT", "PROTOBUF"),
    ("DEBEZIUM", "AVRO"), ("DEBEZIUM_MONGO", "JSON"),
    ("MAXWELL", "JSON"), ("CANAL", "JSON"),
}  # fmt: skip


def lookup(format: str, encode: str, place: Place | None = None) -> Format:
    """The format of that name; raises with the nearest known one, or says that it comes later."""
    pair = (format.upper(), encode.upper())
    if pair in FORMATS:
        return FORMATS[pair]
    text = f"FORMAT {pair[0]} ENCODE {pair[1]}"
    if pair in LATER:
        raise NotSupportedError(text, place=place)
    known = [f"FORMAT {f} ENCODE {e}" for f, e in FORMATS]
    raise SqlError(
        f"there is no {text}",
        place=place,
        remedy=did_you_mean(text, known) or "one of " + ", ".join(known),
    )


def lookup_sink(
    connector: str, takes: Mapping[str, tuple[str, ...]], format: str, encode: str, place: Place
) -> tuple[OptionSpec, ...]:
    """The options of a format that a sink's connector writes; raises for one that it does not."""
    if encode in takes.get(format, ()):
        return SINK_FORMATS[format, encode]
    text = f"FORMAT {format} ENCODE {encode}"
    known = ", ".join(f"FORMAT {f} ENCODE {e}" for f, es in takes.items() for e in es)
    remedy = f"it writes {known}" if known else "leave it out"
    if known and (format, encode) in LATER_SINK_FORMATS:
        raise NotSupportedError(f"{text} of a {connector} sink", place=place, remedy=remedy)
    raise SqlError(
        f"a {connector} sink does not write {text}" if known else f"{connector} takes no FORMAT",
        place=place,
        remedy=remedy,
    )


def check(connector: str, format: str, encode: str, settings: Settings) -> None:
    """What a format's options must be for that connector, without any I/O."""
    if encode.upper() != "CSV":
        return
    delimiter = settings.string("delimiter")
    if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise SqlError(
            f"delimiter accepts one character, not {delimiter!r}",
            place=settings.place("delimiter"),
            remedy="a comma, a semicolon, a bar, or a tab written as E'\\t'",
        )
    if not settings.boolean("without_header") and connector not in ("file", "s3"):
        raise SqlError(
            f"{settings.what} reads messages, which have no header line",
            place=settings.place("without_header"),
            remedy="ENCODE CSV (without_header = 'true'); fields are then matched by their order",
        )


def decoder(format: str, encode: str, fields: tuple[FieldSpec, ...], settings: Settings) -> Decoder:
    """The decoder that fills those columns. Called on the driver; the answer goes to the executors.

    Raises a SqlError for columns that the format cannot fill.
    """
    chosen = lookup(format, encode)
    if chosen.changes is not None:
        raise SqlError(
            f"{settings.what}: FORMAT {format} has changes of rows, which only a table can take in",
            remedy="CREATE TABLE with a PRIMARY KEY",
        )
    if chosen.decoder is None:
        raise SqlError(
            f"{settings.what}: ENCODE {encode} gives typed rows, there is nothing to decode"
        )
    return chosen.decoder(fields, settings)


def change_decoder(
    format: str, encode: str, fields: tuple[FieldSpec, ...], settings: Settings
) -> ChangeDecoder:
    """The decoder that gives changes of rows with a key; a format of plain rows gives upserts alone."""
    factory = lookup(format, encode).changes
    if factory is not None:
        return factory(fields, settings)
    from icestream.connectors.formats.changes import PlainChanges

    return PlainChanges(decoder(format, encode, fields, settings))
