"""FORMAT PLAIN ENCODE BYTES: the payload as it is, in the one column that there is."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from icestream.connectors.formats import Decoded, FieldSpec, check_not_null
from icestream.errors import SqlError
from icestream.types import BYTEA


@dataclass(frozen=True)
class BytesDecoder:
    """Hands payloads through, NULL ones too."""

    fields: tuple[FieldSpec, ...]

    def __post_init__(self) -> None:
        if len(self.fields) != 1 or self.fields[0].type != BYTEA:
            raise SqlError(
                "ENCODE BYTES needs exactly one column, of type bytea",
                remedy="for example (payload bytea); INCLUDE columns may stand beside it",
            )

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Every payload as a row."""
        return check_not_null(self.fields, Decoded([payloads], None))
