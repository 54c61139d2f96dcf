"""FORMAT PLAIN ENCODE JSON: one JSON object a record.

`Careful` is the definition; `json_fast` reads whole blocks where it provably gives the same rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icestream.connectors.formats import Decoded, FieldSpec, blocks, check_not_null, values
from icestream.connectors.formats.json_fast import Columns, plain_reader, read_block

__all__ = ["Careful", "JsonDecoder", "document", "read_block", "sampled"]

_SURROGATE = re.compile(r"\\u[dD]")


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes JSON objects into the given columns; fields the columns do not name are ignored."""

    fields: tuple[FieldSpec, ...]
    numbers: str = values.GUESS
    """timestamptz.handling.mode: what a number means for a timestamptz."""

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Every payload as a row, or its reason."""
        careful = Careful(self.fields, self.numbers)
        decoded = blocks.decode(payloads, self.fields, self.fast(payloads), careful.record)
        return check_not_null(self.fields, decoded)

    def fast(self, payloads: pa.BinaryArray, *, exact: bool = False) -> blocks.Fast | None:
        """The fast way for records like the first of these; None if there is none.

        `exact`: only where the records spell every key as its field.
        """
        columns = Columns.like(
            self.fields, sampled(payloads), lambda f, v: plain_reader(f.type, v, self.numbers)
        )
        if columns is None or (exact and columns.keys != [f.name for f in self.fields]):
            return None
        return columns.decode


class Careful:
    """The definition: one payload at a time."""

    def __init__(self, fields: tuple[FieldSpec, ...], numbers: str) -> None:
        self.converters = [(f.name, values.converter(f.type, numbers)) for f in fields]

    def record(self, payload: bytes) -> Sequence[Any]:
        """The values of the payload's fields, or ValueError with the reason."""
        value = document(payload)
        if not isinstance(value, dict):
            raise ValueError("the payload is not a JSON object")
        picked = values.pick(value, self.converters)
        return [picked[name] for name, _ in self.converters]


def document(payload: bytes) -> Any:
    """What the payload says, as `values.parse` gives it; ValueError if it is not JSON."""
    text = blocks.text_of(payload)
    try:
        value = values.parse(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error}") from None
    if _SURROGATE.search(text):
        _no_lone_surrogates(value)
    return value


def _no_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise ValueError("invalid JSON: a string holds half of a surrogate pair") from None


def sampled(payloads: pa.BinaryArray) -> dict[str, Any]:
    """The first object among the first records."""
    for payload in payloads[:3]:
        try:
            found = values.parse(payload.as_py().decode())
        except (ValueError, AttributeError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return {}
