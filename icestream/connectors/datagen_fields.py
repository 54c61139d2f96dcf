"""The columns of a datagen source as Spark SQL over `id`, the number of the row.

    fields.<column>.kind      random (default) or sequence
    fields.<column>.start     of a sequence: its first value (0) …
    fields.<column>.end       … and its last; rows after it have NULL
    fields.<column>.min, max  of random numbers; both inclusive (0 and 1000)
    fields.<column>.length    of random text and bytes (10), and of arrays (3)
    fields.<column>.max_past  of random times: how far before the row's own time ('1 day')
    fields.<column>.basetime  of random times: the time of the first row (2024-01-01T00:00:00Z)
    fields.<column>.seed      a seed for this column alone

A field of a struct is fields.<column>.<field>.…, the elements of an array are fields.<column>._.…
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.lake.catalogs import literal
from icestream.sql.options import Settings, seconds
from icestream.types import Type, spark_type

if TYPE_CHECKING:
    from icestream.connectors.base import Column

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000_000
_LARGEST: dict[Type, int] = {t.SMALLINT: 2**15 - 1, t.INTEGER: 2**31 - 1, t.BIGINT: 2**63 - 1}


class Generator:
    """The expressions of all columns, checked against the options."""

    def __init__(self, settings: Settings, columns: Sequence[Column], rate: float) -> None:
        self.settings = settings
        self.seed = settings.integer("seed")
        self.rate = rate
        self.columns = {c.name: c.type for c in columns if c.generated is None}
        self._known: set[str] = set()
        for name in self.columns:
            self.expression(name, 0)
        self._refuse_unknown()

    def expression(self, column: str, base: int) -> str:
        """The column's value in row `id`, of its declared type."""
        value = self._value(column, self.columns[column], base, "")
        return f"CAST({value} AS {spark_type(self.columns[column])})"

    def _value(self, path: str, type: Type, base: int, salt: str) -> str:
        """SQL of one value; `salt` tells the elements of an array apart."""
        match type:
            case t.StructType(fields=fields):
                parts = [
                    f"{literal(f.name)}, {self._value(f'{path}.{f.name}', f.type, base, salt)}"
                    for f in fields
                ]
                return f"named_struct({', '.join(parts)})"
            case t.ArrayType(element=element):
                length = int(self._number(path, "length", 3))
                index = f"i{salt.count(',')}"
                inner = self._value(f"{path}._", element, base, f"{salt}, {index}")
                if length < 1:
                    return f"CAST(array() AS {spark_type(type)})"
                return f"transform(sequence(1, {length}), {index} -> {inner})"
        kind = self._text(path, "kind") or "random"
        if kind not in ("random", "sequence"):
            raise self._wrong(path, "kind", "random or sequence")
        if kind == "sequence":
            return self._sequence(path, type)
        return self._random(path, type, base, salt)

    def _sequence(self, path: str, type: Type) -> str:
        if type not in (*t.INTEGERS, *t.FLOATS) and not isinstance(type, t.NumericType):
            raise SqlError(
                f"{self.settings.what}: fields.{path}.kind = 'sequence' is for numbers, not {type}",
                place=self.settings.place(f"fields.{path}.kind"),
            )
        start = self._number(path, "start", 0)
        value = f"({start:f} + id)"
        if self._text(path, "end") is None:
            return value
        end = self._number(path, "end", 0)
        return f"(CASE WHEN id <= {end - start:f} THEN {value} END)"

    def _random(self, path: str, type: Type, base: int, salt: str) -> str:
        hashed = self._hash(path, salt)
        match type:
            case t.SMALLINT | t.INTEGER | t.BIGINT:
                return self._between(path, hashed, 0, _LARGEST[type])
            case t.NumericType(precision=precision, scale=scale):
                digits = min(scale, 6)
                largest = 10 ** min(precision - scale + digits, 18) - 1
                unscaled = f"CAST({self._between(path, hashed, digits, largest)} AS DECIMAL(19, 0))"
                return f"({unscaled} * CAST('{Decimal(1).scaleb(-digits):f}' AS DECIMAL(7, 6)))"
            case t.REAL | t.DOUBLE:
                least, most = self._number(path, "min", 0), self._number(path, "max", 1000)
                unit = f"(shiftrightunsigned({hashed}, 11) / 9007199254740992D)"
                return f"({least:f}D + {most - least:f}D * {unit})"
            case t.BOOLEAN:
                return f"(pmod({hashed}, 2) = 0)"
            case t.VARCHAR:
                return self._letters(path, int(self._number(path, "length", 10)), salt)
            case t.BYTEA:
                return (
                    f"unhex({self._letters(path, 2 * int(self._number(path, 'length', 10)), salt)})"
                )
            case t.TIME:
                return f"pmod({hashed}, {DAY})"
            case t.DATE:
                return f"CAST(timestamp_micros({self._moment(path, hashed, base)}) AS DATE)"
            case t.TIMESTAMP | t.TIMESTAMPTZ:
                return f"timestamp_micros({self._moment(path, hashed, base)})"
        raise NotSupportedError(f"datagen for {path}, which is {type}")

    def _between(self, path: str, hashed: str, digits: int, largest: int) -> str:
        """A whole number from min to max, both scaled by 10 ** digits and in the type's range."""
        least = int(self._number(path, "min", 0).scaleb(digits))
        given = self._text(path, "max") is not None
        most = int(self._number(path, "max", 1000).scaleb(digits))
        if not given:
            most = max(least, min(most, largest))
        if least < -largest or most > largest:
            raise self._wrong(
                path, "max" if most > largest else "min", "a number in the type's range"
            )
        if most < least:
            raise self._wrong(path, "max", "at least the value of min")
        if most - least >= (1 << 63) - 1:
            raise self._wrong(path, "max", "less than 2^63 above min")
        return f"({least}L + pmod({hashed}, {most - least + 1}L))"

    def _letters(self, path: str, length: int, salt: str) -> str:
        blocks = -(-max(length, 1) // 64)
        parts = [
            f"sha2(concat_ws('/', {self._seed(path)}, {literal(path)}, id{salt}, {b}), 256)"
            for b in range(blocks)
        ]
        return f"substr(concat({', '.join(parts)}), 1, {length})"

    def _moment(self, path: str, hashed: str, base: int) -> str:
        """Microseconds of a time up to max_past before the row's own."""
        text = self._text(path, "max_past") or "1 day"
        try:
            past = int(seconds(text) * 1_000_000)
        except ValueError:
            raise self._wrong(path, "max_past", "a duration such as '1 day' or '10 min'") from None
        if (given := self._text(path, "basetime")) is not None:
            try:
                moment = datetime.fromisoformat(given.strip())
            except ValueError:
                raise self._wrong(
                    path, "basetime", "a time such as '2026-01-31T12:00:00Z'"
                ) from None
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            base = (moment - EPOCH) // timedelta(microseconds=1)
        own = f"{base}L + CAST(id * {1_000_000 / self.rate!r}D AS BIGINT)"
        return f"({own} - pmod({hashed}, {past}L))" if past else f"({own})"

    def _hash(self, path: str, salt: str) -> str:
        return f"xxhash64({self._seed(path)}, {literal(path)}, id{salt})"

    def _seed(self, path: str) -> str:
        return f"{int(self._number(path, 'seed', self.seed))}L"

    def _text(self, path: str, attribute: str) -> str | None:
        key = f"fields.{path}.{attribute}"
        self._known.add(key)
        return str(self.settings[key]) if key in self.settings else None

    def _number(self, path: str, attribute: str, default: int) -> Decimal:
        text = self._text(path, attribute)
        if text is None:
            return Decimal(default)
        try:
            number = Decimal(text.strip())
        except InvalidOperation:
            raise self._wrong(path, attribute, "a number") from None
        if not number.is_finite() or number.adjusted() > 38:
            raise self._wrong(path, attribute, "a number")
        if attribute in ("length", "seed") and (number != int(number) or abs(number) >= 1 << 63):
            raise self._wrong(path, attribute, "a whole number")
        return number

    def _wrong(self, path: str, attribute: str, accepted: str) -> SqlError:
        key = f"fields.{path}.{attribute}"
        return SqlError(f"{key} accepts {accepted}", place=self.settings.place(key))

    def _refuse_unknown(self) -> None:
        """An option of a column that is not there, or that its type and kind do not use."""
        for key in self.settings:
            if key.startswith("fields.") and key not in self._known:
                raise SqlError(
                    f"{self.settings.what}: {key} fits no column",
                    place=self.settings.place(key),
                    remedy=did_you_mean(key, self._known),
                )
