"""The columns an expression may name: [qualifier.]column → its type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from icestream.errors import Place, SqlError, did_you_mean
from icestream.functions.expressions import ColumnRef
from icestream.types import Type


@dataclass(frozen=True)
class Scope:
    """Columns in order. Two of the same name are fine until an expression names them without a qualifier."""

    columns: tuple[ColumnRef, ...] = ()

    @classmethod
    def of(cls, columns: Mapping[str, Type], qualifier: str | None = None) -> Scope:
        """One relation's columns."""
        return cls(tuple(ColumnRef(type, name, qualifier) for name, type in columns.items()))

    @classmethod
    def join(cls, scopes: Iterable[Scope]) -> Scope:
        """The columns of several relations side by side."""
        return cls(tuple(c for scope in scopes for c in scope.columns))

    def find(self, name: str, qualifier: str | None = None) -> list[ColumnRef]:
        """All columns that the name may mean."""
        return [
            c
            for c in self.columns
            if c.name == name and (qualifier is None or c.qualifier == qualifier)
        ]

    def has_relation(self, qualifier: str) -> bool:
        """Whether some column carries that qualifier."""
        return any(c.qualifier == qualifier for c in self.columns)

    def resolve(self, name: str, qualifier: str | None, place: Place | None) -> ColumnRef:
        """The one column meant; an unknown or ambiguous name is an error with its place."""
        found = self.find(name, qualifier)
        if len(found) == 1:
            return found[0]
        full = f"{qualifier}.{name}" if qualifier else name
        if found:
            raise SqlError(
                f'column reference "{full}" is ambiguous',
                place=place,
                remedy=f"write it as relation.{name}",
            )
        if qualifier and not self.has_relation(qualifier):
            known = {c.qualifier for c in self.columns if c.qualifier}
            raise SqlError(
                f'missing FROM-clause entry for table "{qualifier}"',
                place=place,
                remedy=did_you_mean(qualifier, known),
            )
        names = {c.name for c in self.columns if qualifier is None or c.qualifier == qualifier}
        raise SqlError(
            f'column "{full}" does not exist', place=place, remedy=did_you_mean(name, names)
        )
