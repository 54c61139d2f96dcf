"""Values of results: numerics keep all of their digits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from icestream.runtime.query import shown
from icestream.types import NUMERIC


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999"),
        ("-1234567890123456789012345678.5000000000", "-1234567890123456789012345678.5"),
        ("9999999999999999999999999999.0000000000", "9999999999999999999999999999"),
        ("0.0000000000", "0"),
        ("1.5000000000", "1.5"),
    ],
)
def test_digits(stored: str, text: str) -> None:
    assert str(shown(Decimal(stored), NUMERIC)) == text
