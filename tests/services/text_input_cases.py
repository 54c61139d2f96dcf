"""Texts of every type, to be compared with PostgreSQL: pieces combined, and mutations of them with a fixed seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

DATES = (
    "2024-02-29", "2023-02-29", "2026-13-45", "2024-2-9", "0001-01-01", "0000-01-01", "12345-06-07", "99-1-2",
    "1/8/1999", "1/18/99", "13/1/2020", "2020/08/11", "20200811", "200811", "2020.08.11", "8-Jan-1999", "Jan-8-1999",
    "1999-Jan-08", "January 8, 1999", "8 january 1999", "Jan 8 99", "99 Jan 8", "J2451187", "2020.223", "2020-223",
    "2020-08-11 BC", "0044-03-15 bc", "AD 2020-08-11", "4714-11-24 BC", "4714-11-23 BC", "5874897-12-31",
    "5874898-01-01", "294276-12-31", "294247-01-10", "1970-01-01", "epoch", "Sat 2024-03-30", "y2020m08d11", "08-11-2020", "11.8.2020",
    "2020-08-32", "2020-00-10", "2020-04-31", "20240230", "2020-8", "2020", "today", "infinity", "", " ", "x",
)  # fmt: skip
TIMES = (
    "", "04:05", "04:05:06", "4:5:6", "04:05:06.789", "04:05:06.1234565", "04:05:06.1234575", "23:59:59.9999995",
    "23:59:59.9999994", "24:00:00", "24:00:01", "23:59:60", "23:59:60.5", "25:00", "12:60", "12:00:61", "T04:05:06", "t040506",
    "040506", "040506.789", "0405", "04:05 AM", "04:05 PM", "12:05 am", "12:05 pm", "13:05 pm", "04:05.5",
    "04:05:06.", "04:05:", "04::06", ":05:06", "04:05:06:07", "-04:05",
)  # fmt: skip
ZONES = (
    "", "Z", "z", " UTC", "+02", "+0200", "+02:00", "-03:30", "+2", "+15:59", "+16", "+02:60", "+02:30:15", " EST", " pst",
    " PDT", " CEST", " Europe/Berlin", " america/new_york", " Europe/Atlantis", " MET DST", " UTC+3", " +02", "+ 02", "-08 BC",
)  # fmt: skip
UNITS = (
    "us", "microseconds", "ms", "msec", "milliseconds", "s", "sec", "secs", "second", "seconds", "m", "min", "mins",
    "minute", "h", "hr", "hours", "d", "day", "days", "w", "week", "weeks", "mon", "mons", "month", "months", "y", "yr", "year",
    "years", "dec", "decade", "decades", "c", "cent", "century", "centuries", "mil", "millennium", "millennia", "quarter", "foo",
)  # fmt: skip
AMOUNTS = (
    "1", "-1", "+2", "0", "1.5", "-1.25", ".5", "0.0000005", "1.23456789", "100000", "99999999999", "-.7", "1.", "2.33333333",
)  # fmt: skip
INTERVALS = (
    "1-2", "-1-2", "+1-2", "1-12", "1-2 3:4", "1-2 3 4:05:06", "3 4:05", "3 4:05:06.789", "-3 4:05", "3 -4:05", "-3 -4:05:06",
    "1-2 -3 +4:5:6", "4:05", "4:05:06", "4:05.5", "-4:05:06.5", "+4:05", "100:00", "4:60", "4:05:61", "4:05:60", "1", "1.5", "-1.5", "@ 1 day ago",
    "1 day ago", "ago", "1 day 2 hours ago", "1 year -2 mons +3 days -04:05:06", "1 day 1 day", "1 d 2 days", "1 week 2 days",
    "1.5 weeks", "1.7 months", "-1.7 months", "1.3 years", "0.7 years", "1.55 decades", "0.123456 days", "0.5 day 12 hours",
    "P1Y2M3DT4H5M6S", "P1Y2M3D", "PT4H5M6.789S", "P2W", "P1.5Y", "P1.5M", "P1.5W", "P1.5D", "PT1.5H", "PT0.0000005S", "P-1Y2M",
    "-P1Y", "P0001-02-03T04:05:06", "P0001-02-03", "PT04:05:06", "P00010203T040506", "P00010203", "PT040506", "P1Y2", "P", "PT", "P1S",
    "P1H", "p1y", "P1YT", "P1e2D", "P 1Y", "1 month 15 days 12:30", "2147483647 days", "2147483648 days", "178956970 years",
    "178956971 years", "-178956971 years", "9223372036854775807 us", "9223372036854775808 us", "2562047788 hours", "2562047789 hours",
    "1 day 25:00", "1:2:3:4", "1 2 3", "1 2:3 4", "12 months 400 days", "1 fortnight", "1 day,2 hours", "1day2hours", "1d2h", "1y2mon",
    "1 day 2", "2 1 day", "1 microsecondsxyz", "1 sec 5 ms", "1.5 sec 5 ms", "5 ms 1.5 sec", "1 min 1:00", "", " ", "x", "infinity",
)  # fmt: skip
NUMBERS = (
    "0", "1", "-1", "+1", "007", "-0", "127", "32767", "32768", "-32768", "-32769", "2147483647", "2147483648", "-2147483648",
    "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1.5", "1.", ".5",
    ".", "-.5", "1e3", "1E3", "1e", "1e+2", "1e-2", "1.5e1", "1.25", "1.35", "-1.25", "0.005", "0.015", "-0.005", "99.994", "99.995", "999.99",
    "999.995", "1000", "12345678901234567890.123456789", "0.00000000005", "0.00000000004", "1e27", "1e28", "1e37", "1e38", "1e-400", "1e400",
    "1e100000", "1e999999999999", "1e-999999999999", "NaN", "nan", "+nan", "Infinity", "-Infinity", "inf", "-inf", "+inf", "infinit", "1_000",
    "0x10", "0x1p3", "0b1", "1 2", "1,5", "١", "+-1", "--1", "1-", "- 1", "1.2.3", "1e5.5", "3.4028235e38", "3.4028236e38",
    "1e-45", "1e-46", "1.1754944e-38", "1.7976931348623157e308", "1.8e308", "4.9e-324", "2e-324", "0.1", "16777217", "1.00000005960464477540",
    "1.000000059604644775390625", "0.1e0", "1d", "1f", "1L", "99999999999999x", "nan(1)", "", " ",
)  # fmt: skip
BOOLEANS = (
    *["true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n", "tr", "tru", "fa", "fal", "fals", "ye", "o", "of", "onn", "truee", "2", "10", "01", "null", "TRUE", "False", "YES", "oN"],
    "", " ", "t t",
)  # fmt: skip
BYTES = (
    "", "abc", "\\x", "\\xdeadBEEF", "\\xd", "\\xde ad", "\\xd ead", "\\xzz", "\\XAB", "\\x0", "\\x00", " \\x00", "\\\\", "\\000", "\\377",
    "\\400", "\\1", "\\12", "\\a", "a\\", "a\\\\b\\101c", "ü", "\\x\nab\tcd ", "\\xabg", "\\xab\\", "x'00'", "\\x 1", "\\x1 ",
)  # fmt: skip
DOCUMENTS = (
    "null", "true", "false", "1", "-1", "-0", "0.0", "-0.0", "1.10", "1.0", "100", "1e3", "1E-2", "1.5e300", "12345678901234567890", "0.1234567890123456789",
    "12345678901234567890123456789012345678901234567890", '"a"', '""', '"ü"', '"\\u00fc"', '"\\u001f"', '"\\u0000"', '"\\n\\t\\"\\\\\\/"', '"\\ud83d\\ude00"',
    '"\\ud83d"', '"\\ude00"', '"\\x"', '"a', "a", "'a'", "[]", "[1, 2]", "[1,]", "[,1]", "[1 2]", "[", "]", "{}", '{"a":1}', '{"b":1,"a":2}', '{"a":1,"a":2}',
    '{"a":1,}', "{a:1}", '{"a"}', '{"a":}', '{1:2}', '{"aa":1,"b":{"z":[],"y":null}}', '[[[]]]', ' {"a" : [1 , 2 ] } ', "01", "1.", ".5", "+1", "1e", "-", "--1",
    "NaN", "Infinity", "tru", "TRUE", "nulll", "true false", "1 2", '"a" "b"', "", " ", '"\t"', '"\x7f"', '{"\\u0061":1,"a":2}', "[1e5]", '"\u2028"', "1e1000000",
    '{"ä":1,"z":2,"\U0001f600":3,"\uff00":4}', "[true,false,null]", "[nul]", "\ufeff1", "1x", '{"a":1]', '[1}',
)  # fmt: skip
ARRAYS = (
    "{}", "{ }", " {} ", "{1}", "{1,2,3}", "{ 1 , 2 }", "{NULL}", "{null,1}", '{"1"}', '{"1","2"}', '{"NULL"}', "{1,}", "{,1}", "{,}", "{1", "1}", "1", "",
    "{1}}", "{{1}", "{a}", '{"a}', "{1 2}", "{1\\2}", '{""}', '{" 1 "}', "{1}x", "x{1}", "{1};", "{+1}", "{1.5}", '{1"2"}', '{"1"2}', "{\\1}", '{"\\1"}', "{1,2147483648}",
)  # fmt: skip
TEXT_ARRAYS = (
    "{a}", "{a b}", "{ a b }", '{"a b"}', '{a"b"}', '{"a"b}', '{"a" "b"}', '{"a\\"b"}', '{"a\\\\b"}', "{a\\,b}", "{\\ a}", "{a\\ }", '{""}', "{NULL,null,Null}", '{"NULL"}',
    "{\\NULL}", "{a,b,c}", "{a,}", "{}", '{"{}"}', "{{a}}", "{a{b}", "{a}b", "{ü,😀}", '{"a,b",c}', '{"a\nb"}', "{a\nb}", "{\ta\t,\tb\t}", "{a'b}", "{$x}", "{[1]}", "[1:1]={a}x",
)  # fmt: skip

_LETTERS = " 0123456789:-+./TZ,aAdhmyPbBeExX'\"{}[]\\_é\t"


def mutated(texts: Sequence[str], count: int, seed: int) -> list[str]:
    """Texts with one or two characters replaced, left out, put in, doubled or swapped."""
    chance = random.Random(seed)
    out: list[str] = []
    for _ in range(count):
        text = chance.choice(texts)
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(text) + 1)
            letter = chance.choice(_LETTERS)
            match chance.randrange(4):
                case 0:
                    text = text[:at] + letter + text[at + 1 :]
                case 1:
                    text = text[:at] + text[at + 1 :]
                case 2:
                    text = text[:at] + letter + text[at:]
                case _:
                    text = text[:at] + text[at : at + 2][::-1] + text[at + 2 :]
        out.append(text)
    return out


def spaced(texts: Iterable[str]) -> list[str]:
    return [
        form
        for text in texts
        for form in (text, f" {text}", f"{text} ", f"\t{text}\n", text.upper())
    ]


def _moments() -> list[str]:
    out = [*DATES]
    for date, time in itertools.product(DATES, TIMES):
        out.append(f"{date} {time}")
    for time, zone in itertools.product(TIMES, ZONES):
        out += [f"2024-03-31 {time}{zone}", f"0044-03-15 {time}{zone} BC", f"{time}{zone}"]
    out += [f"{d}T{c}{z}" for d in DATES[:8] for c in TIMES[1:6] for z in ZONES[:8]]
    out += [f"{c} {d}" for d in DATES for c in TIMES[1:4]]
    out += [f"{d}{z}" for d in DATES for z in ZONES]
    return out


def _intervals() -> list[str]:
    out = [f"{a}{gap}{u}" for a in AMOUNTS for u in UNITS for gap in (" ", "")]
    out += [
        f"{a} {u} {b} {v}"
        for a, b in (("1", "2"), ("1.5", "-3"), ("-1", "2.25"))
        for u in UNITS
        for v in ("day", "h", "secs", "mons")
    ]
    out += [f"{i}{tail}" for i in INTERVALS for tail in ("", " ago", " 2 days", " 4:05:06.7")]
    return out


def _unique(texts: Iterable[str], most: int) -> list[str]:
    kept = [x for x in dict.fromkeys(texts) if "\0" not in x]
    if len(kept) <= most:
        return kept
    return random.Random(7).sample(kept, most)


def _with_mutations(texts: Sequence[str], count: int, seed: int, most: int = 6000) -> list[str]:
    return _unique([*texts, *mutated(texts, count, seed)], most)


_NUMBERS = spaced(NUMBERS)
CASES: dict[str, list[str]] = {
    "boolean": _with_mutations(spaced(BOOLEANS), 300, 1),
    "smallint": _with_mutations(_NUMBERS, 500, 2),
    "integer": _with_mutations(_NUMBERS, 500, 3),
    "bigint": _with_mutations(_NUMBERS, 500, 4),
    "numeric": _with_mutations(_NUMBERS, 1000, 5),
    "numeric(5,2)": _with_mutations(_NUMBERS, 1000, 6),
    "real": _with_mutations(_NUMBERS, 1000, 7),
    "double precision": _with_mutations(_NUMBERS, 1000, 8),
    "date": _with_mutations(_moments(), 1500, 9),
    "time": _with_mutations(_moments(), 1500, 10),
    "timestamp": _with_mutations(_moments(), 1500, 11),
    "timestamptz": _with_mutations(_moments(), 1500, 12),
    "interval": _with_mutations(_intervals(), 2000, 13),
    "bytea": _with_mutations(spaced(BYTES), 500, 14),
    "jsonb": _with_mutations(DOCUMENTS, 1500, 15),
    "integer[]": _with_mutations(ARRAYS, 500, 16),
    "text[]": _with_mutations(TEXT_ARRAYS, 500, 17),
}  # fmt: skip
"""The texts of each type."""
