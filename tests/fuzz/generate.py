"""Random columns and JSON texts for them: values that fit, values at the edges, and malformed ones.

Values are generated as JSON text, because the form of a number (`1e2`, `100`, `1.00E+2`) is part of the input.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Sequence

from icestream import types as t
from icestream.connectors.formats import FieldSpec

SCALARS: tuple[t.Type, ...] = (
    t.BOOLEAN, t.SMALLINT, t.INTEGER, t.BIGINT, t.REAL, t.DOUBLE, t.VARCHAR, t.BYTEA, t.DATE, t.TIME,
    t.TIMESTAMP, t.TIMESTAMPTZ, t.JSONB,
)  # fmt: skip
FAST_SCALARS = tuple(s for s in SCALARS if s not in (t.BYTEA, t.JSONB))
"""Types that Arrow's readers know: a batch of them can take the fast way."""
NAMES = (
    "a",
    "b",
    "Cc",
    "id",
    "name",
    "at",
    "schema",
    "payload",
    "x y",
    "ü",
    "k",
    "op",
    "after",
    "v",
    "w",
)
DOUBLES = (
    "5e-99999999999999999999", "5e99999999999999999999", "-0e-999999999999999999", "1e-000000000000000000001",
    "0", "-0", "0.0", "-0.0", "1e5", "1E+2", "1e-2", "1e00002", "1e400", "1e-400", "-1e400", "1.8e308",
    "-1.8e308", "1.7976931348623157e308", "1.7976931348623159e308", "4.9e-324", "2e-324",
    "3.4028235e38", "3.4028235677973366e38", "3.4028236e38", "-3.5e38", "1e-46", "0.1", "16777217",
    "9007199254740993", "123456789012345678901234567890", "5e-1", "0e400", "0e-400",
)  # fmt: skip
MALFORMED_NUMBERS = (
    "01", "1.", ".5", "-", "+1", "NaN", "Infinity", "-Infinity", "Inf", "-Inf", "0x1", "1e", "1e+", "--1",
    "1_0", "1,5", "1 2", "nan", "inf",
)  # fmt: skip
NUMBER_TEXTS = (
    "", " ", " 1 ", "1\\n", "+1", "1.", ".5", ".", "1e5", "1e0000000000005", "1e99999999999", "1_0", "١",
    "NaN", "Infinity", "-Infinity", "inf", "nan", "1e-5", "-0", "0x1", "1 2", "true",
)  # fmt: skip
DATES = (
    "2024-02-29", "2023-02-29", "0001-01-01", "0000-12-31", "9999-12-31", "10000-01-01", "20240229", "2024-2-9",
    "2024-W05-1", "2024-060", "-2024-01-01", "+2024-01-01", "1969-12-31", "2024-02-29Z", "2024-02-29 ",
    " 2024-02-29", "2024-02-29T00:00:00", "2024-02-29+02",
)  # fmt: skip
TIMES = (
    "00:00:00", "23:59:59", "24:00:00", "12", "12:30", "1230", "12:30:45", "123045", "12:30:60", "23:59:59.5",
    "12:30:45.123456", "12:30:45.123456789", "12:30:45.1234567891", "12:30:45,5", "12:30:45.", "12:30.5",
    "1:2:3", "12:30:45.9999999", "00:00:00.000001",
)  # fmt: skip
ZONES = (
    "", "", "", "Z", "z", "+02", "-02", "+2", "+0230", "-0230", "+02:30", "-02:30", "+02:30:15", "+24",
    "+24:00", "-23:59", "+00", "-00:00", " Z", " +02", "+02:60", "UTC", "+02:3",
)  # fmt: skip
EPOCH_EDGES = (0, 10**11, 10**14, 10**17, 2**63, 62_135_596_800, 253_402_300_800, 86_400_000_000)
TEXTS = (
    "", "x", " ", "null", "true", "NaN", "Info, NaN", "}{", "a\\nb", "a\\r\\nb", "\\u0000", "\\u0041", "\\ud83d\\ude00",
    "grün 😀", "\\\\x00ff", "\\\\x0", "\\\\xzz", "AQI=", "AQ==", "!", "K", '\\"', ",", "[1]", "{}", "{\\\"a\\\": 1.50}",
)  # fmt: skip
BROKEN = (
    '"\\ud800"', '"\\uDC00"', '"\\x"', '"\n"', '"', "nul", "", "{", "[", "[1,]", '{"a":}', "tru", "\ufeff1", "'a'",
    '"\t"', "1 2", "{}{}", "//", "[[[[",
)  # fmt: skip


class Generator:
    """Random inputs from one seed. `odds` is the share of values that need not fit their type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odds = self.random.choice([0.0, 0.0, 0.002, 0.02, 0.2])
        self.placeholders = 0.0
        """The share of values that are Debezium's placeholder for one that did not change."""
        self.missing = self.random.choice([0.0, 0.03])
        self.times_are_numbers = self.chance(0.5)
        self.scalars = SCALARS if self.chance(0.2) else FAST_SCALARS

    def is_odd(self) -> bool:
        """Whether the next value may be of any shape."""
        return self.random.random() < self.odds

    def chance(self, share: float) -> bool:
        """True in that share of the calls."""
        return self.random.random() < share

    # -- columns -----------------------------------------------------------------------------------

    def numeric(self) -> t.Type:
        """A numeric of any precision and scale."""
        precision = self.random.choice([1, 9, 18, 19, 28, 37, 38, self.random.randint(1, 38)])
        return t.numeric(
            precision, self.random.choice([0, precision, self.random.randint(0, precision)])
        )

    def type(self, depth: int = 2) -> t.Type:
        """Any type that a column can have."""
        roll = self.random.random()
        if roll < 0.3:
            return self.numeric()
        if roll < 0.85 or not depth:
            return self.random.choice(self.scalars)
        if roll < 0.9:
            return t.array(self.type(depth - 1))
        if roll < 0.94 and self.scalars is SCALARS:
            return t.map_of(self.random.choice([t.VARCHAR, t.INTEGER]), self.type(depth - 1))
        names = self.random.sample(NAMES, self.random.randint(1, 3))
        return t.struct(*((n, self.type(depth - 1)) for n in names))

    def fields(self, type: Callable[[], t.Type] | None = None) -> tuple[FieldSpec, ...]:
        """One to four columns."""
        make = type or self.type
        names = self.random.sample(NAMES, self.random.randint(1, 4))
        return tuple(FieldSpec(n, make(), not_null=self.chance(0.05)) for n in names)

    # -- values as JSON text -----------------------------------------------------------------------

    def value(self, type: t.Type) -> str:
        """A JSON text for a column of that type: mostly one that fits, or is at the edge."""
        if self.is_odd():
            return self.odd()
        if self.chance(self.missing):
            return "null"
        match type:
            case t.NumericType():
                return self.decimal(type)
            case t.ArrayType(element=element):
                return (
                    "["
                    + ",".join(self.value(element) for _ in range(self.random.randrange(4)))
                    + "]"
                )
            case t.MapType(key=key, value=value):
                names = ["1", "2", "x"] if self.is_odd() or key == t.VARCHAR else ["1", "2"]
                return _object([(n, self.value(value)) for n in names[: self.random.randrange(4)]])
            case t.StructType(fields=fields):
                return self.object([(f.name, f.type) for f in fields])
        return self._scalar(type)

    def _scalar(self, type: t.Type) -> str:
        choose = self.random.choice
        match type:
            case t.BOOLEAN:
                return choose(["true", "false"])
            case t.SMALLINT | t.INTEGER | t.BIGINT:
                return self.integer({t.SMALLINT: 15, t.INTEGER: 31, t.BIGINT: 63}[type])
            case t.REAL | t.DOUBLE:
                if self.odds and self.chance(0.1 + self.odds):
                    return choose(DOUBLES)
                magnitude = 36 if self.odds else 8
                return repr(
                    self.random.uniform(-1, 1) * 10.0 ** self.random.randint(-magnitude, magnitude)
                )
            case t.DATE:
                return self.date()
            case t.TIME:
                return self.time()
            case t.TIMESTAMP | t.TIMESTAMPTZ:
                return self.timestamp()
            case t.JSONB:
                return self.document(2)
            case t.BYTEA:
                return choose(['"\\\\x00ff"', '"text"', '"\\\\xAB"', '"AQI="'])
        return self.text()

    def integer(self, bits: int) -> str:
        """A whole number of that many bits, or one beside the edge."""
        roll = self.random.random()
        if roll < 0.7:
            return str(self.random.randint(-(1 << bits), (1 << bits) - 1))
        if roll < 0.9:
            return str(self.random.randint(-5, 5))
        edge = self.random.choice([(1 << bits) - 1, -(1 << bits)])
        edge += self.random.choice([-1, 0, 0, 1]) if self.odds else 0
        form = self.random.choice(["{}", "{}", "{}.0", "{}e0", '"{}"', '" {} "', '"+{}"', "{}.5"])
        return (form if self.odds else "{}").format(edge)

    def decimal(self, type: t.NumericType) -> str:
        """A number of any digits and exponent, most within the precision."""
        roll = self.random.random()
        whole = type.precision - type.scale
        if roll < 0.1 and self.odds:
            return self.random.choice(DOUBLES)
        if roll < 0.15:
            return json.dumps(self.random.choice(NUMBER_TEXTS)) if self.odds else "0"
        if roll < 0.3:  # the edges: the largest value, and what rounds up to one more
            text = (
                f"{'9' * whole or '0'}."
                + "9" * type.scale
                + self.random.choice(["0", "4", "5", "49", "5"])
            )
        else:
            over = 2 if self.odds else 0
            size = self.random.randint(0, whole + over)
            digits = "".join(self.random.choices("0123456789", k=size)).lstrip("0") or "0"
            text = digits + "."
            text += "".join(
                self.random.choices("0123456789", k=self.random.randint(1, type.scale + 3))
            )
        text = text.rstrip("0").rstrip(".") if self.chance(0.5) else text
        if text.endswith("."):
            text += "0"
        sign = self.random.choice(["", "-"])
        if self.chance(0.2):
            text = self._with_exponent(text)
        if self.is_odd():
            text = text.replace("e", "\\u0065").replace(".", "\\u002e")
        return f'"{sign}{text}"' if "\\" in text or self.chance(0.1) else sign + text

    def _with_exponent(self, text: str) -> str:
        """The same number, or one of another magnitude, in scientific notation."""
        shift = self.random.randint(-6, 6)
        whole, _, fraction = text.partition(".")
        digits = (whole + fraction).lstrip("0") or "0"
        exponent = len(whole) - 1 if self.chance(0.7) else shift
        head = digits[0] + ("." + digits[1:] if digits[1:] else "")
        marker = self.random.choice("eE") + self.random.choice(["", "+"] if exponent >= 0 else [""])
        return f"{head}{marker}{exponent}"

    def date(self) -> str:
        """A date: ISO text, or a number of days."""
        roll = self._roll_time()
        if roll < 0.5:
            year, month, day = (
                self.random.randint(1, 9999),
                self.random.randint(1, 12),
                self.random.randint(1, 28),
            )
            return f'"{year:04}-{month:02}-{day:02}"'
        if roll < 0.9 or not self.odds:
            over = 1 if self.odds else 0
            return str(self.random.randint(-719_162 - over, 2_932_896 + over))
        return f'"{self.random.choice(DATES)}"'

    def _roll_time(self) -> float:
        """Below 0.5 for text: mostly the same for all values of a batch."""
        roll = self.random.random() / 2
        return roll + 0.5 if self.times_are_numbers != self.is_odd() else roll

    def time(self) -> str:
        """A time of day: ISO text, or a number."""
        roll = self._roll_time()
        if roll >= 0.5:
            return str(self.random.randint(0, 86_400_000_000 if self.odds else 86_399_999))
        zone = self.random.choice(ZONES) if self.odds else ""
        return f'"{self.random.choice(TIMES if self.odds else TIMES[:2])}{zone}"'

    def timestamp(self) -> str:
        """A timestamp: ISO text, or a number of any unit."""
        roll = self._roll_time()
        if roll < 0.5:
            date = self.random.choice(DATES if self.odds else DATES[:1])
            time = self.random.choice(TIMES if self.odds else ("12:30:45", "12:30:45.123456"))
            separator = self.random.choice("TTT t_") if self.odds else "T"
            return f'"{date}{separator}{time}{self.random.choice(ZONES) if self.odds else ""}"'
        if roll < 0.7 or not self.odds:
            size = self.random.choice(
                [10**9, 10**10, 10**12, 10**15, 10**18] if self.odds else [10**9]
            )
            return str(self.random.randint(-size, 2 * size))
        if roll < 0.9:
            edge = self.random.choice(EPOCH_EDGES)
            return str(self.random.choice([1, -1]) * (edge + self.random.randint(-2, 2)))
        return f"{self.random.randint(-(10**12), 10**12)}.{self.random.randint(0, 10**9)}"

    def text(self) -> str:
        """A JSON string."""
        if self.chance(0.5):
            return f'"{self.random.choice(TEXTS)}"'
        return json.dumps(
            "".join(self.random.choices("aZ0 ,\"é\n\r'K", k=self.random.randrange(6)))
        )

    def document(self, depth: int) -> str:
        """Any JSON document."""
        roll = self.random.random()
        if roll < 0.25 and depth:
            return (
                "["
                + ",".join(self.document(depth - 1) for _ in range(self.random.randrange(4)))
                + "]"
            )
        if roll < 0.5 and depth:
            names = self.random.choices(NAMES, k=self.random.randrange(4))
            return _object([(n, self.document(depth - 1)) for n in names])
        if roll < 0.7:
            return self.text()
        if roll < 0.9:
            return self.random.choice(DOUBLES if self.odds else DOUBLES[:6])
        return self.random.choice(["null", "true", "false", "1", "-1"])

    def odd(self) -> str:
        """Any JSON, or something that is none."""
        roll = self.random.random()
        if roll < 0.3:
            return self.document(2)
        if roll < 0.5:
            return self._scalar(self.random.choice(SCALARS))
        if roll < 0.7:
            return json.dumps(self.random.choice([*NUMBER_TEXTS, *DATES, *TIMES]))
        if roll < 0.8:
            return self.random.choice(MALFORMED_NUMBERS)
        if roll < 0.82:
            return "[" * 250 + "]" * 250
        if roll < 0.84:
            return "1" * self.random.choice([39, 77, 309, 4301])
        return self.random.choice(BROKEN)

    def object(self, fields: Sequence[tuple[str, t.Type]]) -> str:
        """An object with those fields; some are missing, doubled, spelled otherwise or accompanied."""
        items = [(n, self.value(type)) for n, type in fields if not self.chance(self.missing)]
        if self.is_odd():
            name, type = self.random.choice(fields)
            items.append((self.respell(name), self.value(type)))
        if self.chance(0.1):
            known = {n for n, _ in fields}
            names = NAMES if self.is_odd() else [n for n in NAMES if n not in known]
            items.append((self.random.choice(names), self.document(1)))
            if self.chance(0.5):
                self.random.shuffle(items)
        return _object(items)

    def respell(self, name: str) -> str:
        """The name in another case, or with an escape."""
        escaped = "".join(f"\\u{ord(c):04x}" for c in name)
        return self.random.choice([name.upper(), name.lower(), name.title(), name, escaped])

    def mutate(self, payload: bytes) -> bytes:
        """The payload with a few bytes removed, replaced, doubled or inserted."""
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(payload) + 1)
            piece = self.random.choice(
                [
                    b"",
                    b"}",
                    b"{",
                    b'"',
                    b"\xff",
                    b"\0",
                    b" ",
                    b"\n",
                    b"\r\n",
                    b",",
                    b"]",
                    b"\\",
                    b"null",
                    b"9" * 50,
                ]
            )
            end = at + self.random.randrange(4)
            payload = payload[:at] + piece + payload[end:]
        return payload

    def base64(self, size: int) -> str:
        """Random bytes in base64."""
        return base64.b64encode(self.random.randbytes(size)).decode()


def _object(items: Sequence[tuple[str, str]]) -> str:
    quoted = (f'"{n}"' if "\\" in n else json.dumps(n, ensure_ascii=False) for n, _ in items)
    return "{" + ",".join(f"{n}:{v}" for n, (_, v) in zip(quoted, items, strict=True)) + "}"
