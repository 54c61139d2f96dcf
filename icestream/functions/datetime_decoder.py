"""The fields of a date, time or timestamp text, put together by PostgreSQL's rules: what each number and word means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo

from icestream.functions.datetime_tokens import (
    KEYWORDS,
    FieldError,
    Token,
    read_clock,
    read_fraction,
    read_offset,
    read_whole,
    round_micros,
)
from icestream.functions.input_errors import TextInputError
from icestream.functions.zones import ABBREVIATIONS, find_zone, is_fixed, offset_at

DAY = 86_400_000_000
DATE = frozenset(("year", "month", "day"))
TIME = frozenset(("hour", "minute", "second", "fraction"))
FIRST_DAY = -2_440_588
"""4714-11-24 BC, the first Julian day, as days since 1970."""
CLOCK_WORDS = {
    "now": "now()", "today": "current_date", "tomorrow": "current_date + 1", "yesterday": "current_date - 1",
}  # fmt: skip
"""Words that depend on the time, and what to write instead."""


def count_days(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the proleptic Gregorian calendar."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


class Decoder:
    """Reads fields one after the other. `found` are the parts that are known so far."""

    def __init__(self, tokens: Sequence[Token], time_only: bool) -> None:
        self.tokens = tokens
        self.time_only = time_only
        self.found: set[str] = set()
        self.year = self.month = self.day = self.hour = self.minute = self.second = 0
        self.fraction = self.year_day = 0
        self.offset = 0
        self.zone: tzinfo | None = None
        self.label = self.special = ""
        self.word_month = self.julian = self.short_year = self.before_christ = False
        self.meridiem: int | None = None

    # -- results ----------------------------------------------------------------------------------

    def days(self) -> int:
        """Days since 1970."""
        return count_days(self.year, self.month, self.day)

    def micros(self) -> int:
        """Microseconds since midnight."""
        seconds = (self.hour * 60 + self.minute) * 60 + self.second
        return seconds * 1_000_000 + self.fraction

    def offset_from(self, zone: str | tzinfo) -> int:
        """The offset from UTC in seconds, that of `zone` if the text has none."""
        if "zone" in self.found and self.zone is None:
            return self.offset
        known = self.zone or (find_zone(zone) if isinstance(zone, str) else zone)
        assert known is not None, zone
        seconds = (self.hour * 60 + self.minute) * 60 + self.second
        return offset_at(known, self.year, self.month, self.day, seconds)

    # -- the fields -------------------------------------------------------------------------------

    def decode(self) -> None:
        """Read all fields and check them together."""
        for at, token in enumerate(self.tokens):
            match token.kind:
                case "date":
                    added = self.date_field(at, token.text)
                case "time":
                    added = self.time_field(token.text)
                case "zone":
                    self.offset = read_offset(token.text)
                    added = {"zone"}
                case "number":
                    added = self.number_field(at, token.text)
                case _:
                    added = self.word_field(at, token.text)
            if added & self.found:
                raise FieldError
            self.found |= added
        self.check()

    def check(self) -> None:
        """What all fields together must be."""
        if self.special and len(self.tokens) > 1:
            raise FieldError
        if not self.special:
            self.check_date()
        if self.meridiem is not None:
            if self.hour > 12:
                raise FieldError("field")
            self.hour = self.hour % 12 + self.meridiem
        if self.time_only:
            if self.overflows():
                raise FieldError("field")
            if not self.found >= TIME or (self.found & DATE and not self.found >= DATE):
                raise FieldError
            if self.zone is not None and not is_fixed(self.zone) and not self.found >= DATE:
                raise FieldError
        elif not self.special and not self.found >= DATE:
            raise FieldError

    def check_date(self) -> None:
        """What the year, month and day must be."""
        if "year" in self.found and not self.julian:
            if self.before_christ:
                if self.year <= 0:
                    raise FieldError("field")
                self.year = 1 - self.year
            elif self.short_year:
                self.year += 2000 if self.year < 70 else 1900 if self.year < 100 else 0
            elif self.year <= 0:
                raise FieldError("field")
        if "year day" in self.found:
            self.year, self.month, self.day = civil_of(
                count_days(self.year, 1, 1) + self.year_day - 1
            )
        if "month" in self.found and not 1 <= self.month <= 12:
            raise FieldError("date")
        if "day" in self.found and not 1 <= self.day <= 31:
            raise FieldError("date")
        if self.found >= DATE:
            after = (self.year + self.month // 12, self.month % 12 + 1)
            if self.day > count_days(*after, 1) - count_days(self.year, self.month, 1):
                raise FieldError("field")

    def overflows(self) -> bool:
        """Whether the time is after 24:00:00."""
        return (
            self.hour > 24
            or self.minute > 59
            or self.second > 60
            or self.fraction > 1_000_000
            or self.micros() > DAY
        )

    def date_field(self, at: int, text: str) -> set[str]:
        """A date, or after one a zone, or a time with one."""
        last, second = self.tokens[-1].kind, self.tokens[min(1, len(self.tokens) - 1)].kind
        if self.time_only:
            is_date = at == 0 and len(self.tokens) > 1 and (last == "date" or second == "time")
        elif self.label == "julian":
            return self.julian_field(text)
        else:
            is_date = not self.label and not self.found >= {"month", "day"}
        if is_date:
            return self.whole_date(text)
        if text[0].isdigit() or (self.label and not self.time_only):
            if self.label not in ("", "time") and not self.time_only:
                raise FieldError
            self.label = ""
            clock, sign, offset = text.partition("-")
            if self.found >= TIME or not sign:
                raise FieldError
            self.offset = read_offset(sign + offset)
            known = DATE if self.time_only else frozenset()
            return self.joined_number(clock, self.found | known) | {"zone"}
        self.zone = find_zone(text)
        if self.zone is None:
            message = f'time zone "{text}" not recognized'
            raise TextInputError("22023", message, "use a name such as Europe/Berlin, or an offset")
        return {"zone"}

    def julian_field(self, text: str) -> set[str]:
        """A Julian day with a zone: 2451187-08"""
        number, end = read_whole(text)
        if number < 0:
            raise FieldError("field")
        self.set_julian(number)
        self.offset = read_offset(text[end:])
        self.label = ""
        return {*DATE, *TIME, "zone"}

    def set_julian(self, number: int) -> None:
        """The date of a Julian day."""
        self.year, self.month, self.day = civil_of(number + FIRST_DAY)
        self.julian = True

    def whole_date(self, text: str) -> set[str]:
        """A date with its separators: numbers, and perhaps the name of a month."""
        parts: list[str] = []
        rest = re.sub(r"^[^a-z0-9]+", "", text)
        while rest:
            rest = re.sub(r"^[^a-z0-9]+", "", rest)
            match = re.match(r"\d+|[a-z]+", rest, re.ASCII)
            if match is None:
                raise FieldError
            parts.append(match[0])
            rest = rest[match.end() + 1 :]
        found, added = set(self.found), set[str]()
        numbers: list[str] = []
        word_month = False
        for part in parts:
            if part[0].isdigit():
                numbers.append(part)
                continue
            kind, value = KEYWORDS.get(part, ("", 0))
            if kind == "ignore":
                continue
            if kind != "month" or "month" in found:
                raise FieldError
            self.month, word_month = int(value), True
            found.add("month")
            added.add("month")
        for part in numbers:
            more = self.single_number(part, found, word_month)
            if more & found:
                raise FieldError
            found |= more
            added |= more
        if found - {"year day", "zone"} != DATE:
            raise FieldError
        return added

    def time_field(self, text: str) -> set[str]:
        """HH:MM:SS"""
        if self.label and not self.time_only:
            if self.label != "time":
                raise FieldError
            self.label = ""
        self.hour, self.minute, self.second, self.fraction = read_clock(text)
        if not self.time_only and self.overflows():
            raise FieldError("field")
        return set(TIME)

    def number_field(self, at: int, text: str) -> set[str]:
        """A number: its label, its length and its place say what it is."""
        if self.label:
            return self.labelled(text)
        point = text.find(".")
        if self.time_only:
            known = self.found | DATE
            if point >= 0:
                if at == 0 and len(self.tokens) > 1 and self.tokens[-1].kind == "date":
                    return self.whole_date(text)
                if point > 2:
                    return self.joined_number(text, known)
                raise FieldError
            if len(text) > 4:
                return self.joined_number(text, known)
            return self.single_number(text, known, False)
        if point >= 0 and not self.found & DATE:
            return self.whole_date(text)
        if point > 2 or (len(text) >= 6 and not (self.found & DATE and self.found & TIME)):
            return self.joined_number(text, self.found)
        return self.single_number(text, self.found, self.word_month)

    def labelled(self, text: str) -> set[str]:
        """A number after the letter that says what it is."""
        label, self.label = self.label, ""
        value, end = read_whole(text)
        rest = text[end:]
        if rest and not (rest.startswith(".") and label in ("julian", "time", "second")):
            raise FieldError
        match label:
            case "month" if {"month", "hour"} <= self.found:
                self.minute = value
                return {"minute"}
            case "year" | "month" | "day" | "hour" | "minute":
                setattr(self, label, value)
                return {label}
            case "second":
                self.second = value
                if rest:
                    self.fraction = round_micros(read_fraction(rest))
                return {"second", "fraction"} if rest else {"second"}
            case "julian":
                self.set_julian(value)
                if not rest:
                    return set(DATE)
                seconds, self.fraction = divmod(int(read_fraction(rest) * DAY), 1_000_000)
                self.hour, self.minute, self.second = (
                    seconds // 3600,
                    seconds // 60 % 60,
                    seconds % 60,
                )
                return {*DATE, *TIME}
            case "time":
                added = self.joined_number(text, self.found | DATE)
                if added != TIME:
                    raise FieldError
                return added
        raise FieldError

    def word_field(self, at: int, text: str) -> set[str]:
        """A month, a zone, a label or another word."""
        if text in ABBREVIATIONS:
            self.offset = ABBREVIATIONS[text]
            return {"zone"}
        kind, value = KEYWORDS.get(text, ("", 0))
        match kind:
            case "ignore":
                return set()
            case "reserved":
                return self.reserved(str(value))
            case "month" if not self.time_only:
                added = {"month"}
                if self.moves_month():
                    self.day, added = self.month, {"day"}
                self.word_month, self.month = True, int(value)
                return added
            case "weekday" if not self.time_only:
                return {"weekday"}
            case "meridiem":
                self.meridiem = int(value)
                return {kind}
            case "era":
                self.before_christ = value == -1
                return {kind}
            case "label":
                self.label = str(value)
                return set()
            case "time mark":
                following = self.tokens[at + 1].kind if at + 1 < len(self.tokens) else ""
                if following not in ("number", "time", "date"):
                    raise FieldError
                if not self.time_only and not self.found >= DATE:
                    raise FieldError
                self.label = "time"
                return set()
            case "":
                self.zone = find_zone(text)
                if self.zone is not None:
                    return {"zone"}
        raise FieldError

    def moves_month(self) -> bool:
        """Whether the number taken for a month is the day: 8 January."""
        known = "month" in self.found and "day" not in self.found
        return known and not self.word_month and 1 <= self.month <= 31

    def reserved(self, word: str) -> set[str]:
        """A word that stands for a whole date or time."""
        if self.time_only and word != "now":
            raise FieldError
        self.special = word
        if word in ("today", "tomorrow", "yesterday"):
            return set(DATE)
        if word == "now":
            return set(TIME) if self.time_only else {*DATE, *TIME, "zone"}
        return {"reserved"}

    # -- numbers without a label ------------------------------------------------------------------

    def single_number(self, text: str, found: set[str], word_month: bool) -> set[str]:
        """One part of a date by its place and length, or a time run together."""
        value, end = read_whole(text)
        if text[end:].startswith("."):
            if end > 2:
                return self.joined_number(text, found | DATE)
            self.fraction = round_micros(read_fraction(text[end:]))
        elif end < len(text) or end == 0:
            raise FieldError
        known = found & DATE
        if len(text) == 3 and known == {"year"} and 1 <= value <= 366:
            self.year_day = value
            return {"year day", "month", "day"}
        if known == DATE:
            return self.joined_number(text, found)
        if known == {"year", "month"} and word_month and len(text) >= 3 and self.short_year:
            self.day, self.year, self.short_year = self.year, value, False
            return {"day"}
        long = len(text) >= 3
        match sorted(known):
            case []:
                part = "year" if long else "month"
            case ["year"] | ["day"]:
                part = "month"
            case ["month"]:
                part = "year" if word_month and long else "day"
            case ["month", "year"]:
                part = "day"
            case ["day", "month"]:
                part = "year"
            case _:
                raise FieldError
        setattr(self, part, value)
        if part == "year":
            self.short_year = len(text) <= 2
        return {part}

    def joined_number(self, text: str, found: set[str]) -> set[str]:
        """YYYYMMDD, HHMMSS or HHMM in one number."""
        digits, point, fraction = text.partition(".")
        if point:
            self.fraction = round_micros(read_fraction(point + fraction.partition(".")[0]))
        elif not found >= DATE and len(digits) >= 6:
            self.year, self.month, self.day = int(digits[:-4]), int(digits[-4:-2]), int(digits[-2:])
            if self.year >= 2**31:
                raise FieldError("field")
            if len(digits) == 6:
                self.short_year = True
            return set(DATE)
        if not found >= TIME and len(digits) in (4, 6):
            self.hour, self.minute = int(digits[:2]), int(digits[2:4])
            self.second = int(digits[4:] or 0)
            return set(TIME)
        raise FieldError
