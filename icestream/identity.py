"""How objects and their tables are named in the epoch log, in stamps, in table properties and as relations of plans.

This is the one place that knows the form of these texts:

    orders#7          an object: its name at birth and its id
    orders#7/2        a stage of a view, or `sink#7/db.table`, a table of a connector
    orders#7!dead     the dead-letter table of a feed
"""

from __future__ import annotations

from collections.abc import Iterable

_ID, _DEAD = "#", "!dead"


class ObjectKey(str):
    """The key of an object or of one of its tables. It is its own text, so it is kept and compared as such."""

    __slots__ = ()

    @classmethod
    def of(cls, name: str, id: int) -> ObjectKey:
        """The key of an object."""
        return cls(f"{name}{_ID}{id}")

    @property
    def name(self) -> str:
        """The object's name at birth."""
        return self.partition(_ID)[0]

    @property
    def id(self) -> str:
        """The object's id, with the part if the key has one."""
        return self.rpartition(_ID)[2]

    @property
    def object(self) -> str:
        """The key of the object, without a part."""
        return self.partition("/")[0]

    @property
    def is_object(self) -> bool:
        """Whether it names an object of a home. Tables of the engine itself have other owners."""
        return _ID in self

    @property
    def dead_letters(self) -> ObjectKey:
        """The key of a feed's dead-letter table."""
        return ObjectKey(self + _DEAD)

    @property
    def is_dead_letters(self) -> bool:
        """Whether it is the key of a dead-letter table."""
        return self.endswith(_DEAD)

    @property
    def identifier(self) -> str:
        """The key in the letters that a table name may have."""
        return self.replace("#", "_").replace("!", "_")

    def part(self, name: str) -> ObjectKey:
        """The key of one of an object's tables."""
        return ObjectKey(f"{self}/{name}")


def object_name(key: str) -> str:
    """The name at birth of the object that a key names."""
    return ObjectKey(key).name


def object_names(keys: Iterable[str]) -> str:
    """The names of objects, sorted, as messages list them."""
    return ", ".join(sorted(object_name(key) for key in keys))
