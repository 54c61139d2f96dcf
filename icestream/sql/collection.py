"""Python's garbage collection, paused while a long text becomes a plan.

A list of 100,000 constants is a million objects, all of them in use. Looking at them again and again for garbage takes
longer than binding them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

LARGE = 100_000
"""Characters of a text that is worth it."""


@contextmanager
def pause_collection(text: str) -> Iterator[None]:
    """Pause the collection if the text is long. If another thread has paused it, that one lets it go on."""
    if len(text) <= LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
