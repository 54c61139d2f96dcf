"""INSERT, UPDATE and DELETE: rows are computed like a query's, and go into the table's log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import Table
from icestream.connectors.dml import NAME, DmlLog
from icestream.errors import SqlError, did_you_mean
from icestream.functions.expressions import Literal
from icestream.lake.fold import DELETE, UPSERT
from icestream.plan.assignment import LOST, Target, bind_assigned
from icestream.plan.calls import converted
from icestream.plan.logical import Item, Node
from icestream.result import Result
from icestream.runtime.constants import constant_rows, with_items
from icestream.runtime.query import frame_of
from icestream.runtime.returning import Change, bind_returning, filled, returned
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.types import arrow_type, quote


class Changing:
    """How statements change tables that have no connector."""

    def __init__(
        self, catalog: Catalog, spark: SparkSession, home: Path, settle: Callable[[], None]
    ) -> None:
        self.catalog = catalog
        self.spark = spark
        self.home = home
        self.settle = settle
        """Makes all that was written before visible."""

    def run(self, statement: Change) -> Result:
        """Write what a statement does; it is in the log when this returns."""
        match statement:
            case st.Insert():
                return self._insert(statement)
            case st.Update():
                return self._update(statement)
        return self._delete(statement)

    def _insert(self, statement: st.Insert) -> Result:
        table = self._table(statement.table)
        columns = filled(table)
        names = statement.columns or tuple(c.name for c in columns)
        self._check_columns(table, names, statement)
        types = {c.name: c.type for c in columns}
        node = bind_assigned(
            statement.query,
            self.catalog.names().relation,
            [Target(name, name, types[name]) for name in names],
            every=bool(statement.columns),
        )
        items = [
            Item(c.name, converted(c.default or Literal(c.type, None), c.type))
            for c in columns
            if c.name not in node.names
        ]
        rows = self._rows(table, with_items(node, items)).select(list(types))
        answer = self._answer("INSERT 0", statement, table, rows)
        self._write(table, [(UPSERT, rows)])
        return answer

    def _delete(self, statement: st.Delete) -> Result:
        table = self._changeable(statement.table)
        self._check_columns(table, (), statement)
        where = f" WHERE {statement.where.text}" if statement.where else ""
        rows = self._selected(table, [], where)[0]
        answer = self._answer("DELETE", statement, table, rows)
        self._write(table, [(DELETE, rows)])
        return answer

    def _update(self, statement: st.Update) -> Result:
        table = self._changeable(statement.table)
        self._check_columns(table, [name for name, _ in statement.assignments], statement)
        set_to = [(name, query.text) for name, query in statement.assignments]
        where = f" WHERE {statement.where.text}" if statement.where else ""
        old, new = self._selected(table, set_to, where)
        answer = self._answer("UPDATE", statement, table, new)
        self._write(table, [(DELETE, old), (UPSERT, new)])
        return answer

    # -- rows ------------------------------------------------------------------------------------

    def _selected(
        self, table: Table, set_to: Sequence[tuple[str, str]], where: str
    ) -> tuple[pa.Table, pa.Table]:
        """The rows that a condition names, as they are and as they are to be."""
        self.settle()
        columns = filled(table)
        exprs = dict(set_to)
        olds = [f"{quote(c.name)} AS {quote(f'old {c.name}')}" for c in columns]
        news = [
            f"({exprs[c.name]}) AS {quote(f'new {c.name}')}" for c in columns if c.name in exprs
        ]
        text = f"SELECT {', '.join([*olds, *news])} FROM {quote(table.name)}{where}"
        (select,) = parse(text, "", {})
        assert isinstance(select, st.Select)
        targets = [Target(f"old {c.name}", c.name, c.type) for c in columns]
        targets += [Target(f"new {c.name}", c.name, c.type) for c in columns if c.name in exprs]
        found = self._rows(
            table, bind_assigned(select.query, self.catalog.names().relation, targets)
        )
        old = found.select([f"old {c.name}" for c in columns])
        new = found.select(
            [f"new {c.name}" if c.name in exprs else f"old {c.name}" for c in columns]
        )
        names = [c.name for c in columns]
        return old.rename_columns(names), new.rename_columns(names)

    def _rows(self, table: Table, node: Node) -> pa.Table:
        """The rows of assigned values. One that does not fit its column is an error."""
        found = constant_rows(node)
        if found is None:
            found = frame_of(node, self.catalog, self.spark).toArrow()
        for name in node.names:
            if name.startswith(LOST) and pc.any(found[name]).as_py():
                where = name.removeprefix(LOST).removeprefix("new ")
                raise SqlError(
                    f"a value does not fit column {where} of table {table.name}", code="22003"
                )
        wanted = [c for c in node.columns if not c.name.startswith(LOST)]
        rows = found.select([c.name for c in wanted])
        for column in table.columns:
            for name in (column.name, f"new {column.name}"):
                if column.not_null and name in rows.column_names and rows[name].null_count:
                    raise SqlError(
                        f'null value in column "{column.name}" of table {table.name} is not allowed',
                        code="23502",
                    )
        return rows.cast(pa.schema([(c.name, arrow_type(c.type)) for c in wanted]))

    def _write(self, table: Table, parts: Sequence[tuple[int, pa.Table]]) -> None:
        rows = pa.concat_tables([rows for _, rows in parts])
        ops = [op for op, part in parts for _ in range(len(part))]
        if ops:
            DmlLog.of(self.home, table.key).append(rows, ops)

    def _answer(self, words: str, statement: Change, table: Table, rows: pa.Table) -> Result:
        message = f"{words} {len(rows)}"
        return returned(message, statement, table, rows, self.catalog, self.spark)

    # -- tables ----------------------------------------------------------------------------------

    def _table(self, name: st.Name) -> Table:
        table = self.catalog.names().find(name, Table)
        assert isinstance(table, Table)
        if table.ingest is None or table.ingest.connector != NAME:
            raise SqlError(
                f"table {name} is filled by its connector", place=name.place,
                remedy="statements change tables without a connector",
            )  # fmt: skip
        return table

    def _changeable(self, name: st.Name) -> Table:
        table = self._table(name)
        if not table.changing:
            raise SqlError(
                f"table {name} is only appended to", place=name.place,
                remedy="a table with a PRIMARY KEY, without APPEND ONLY, can be changed",
            )  # fmt: skip
        return table

    def _check_columns(self, table: Table, named: Sequence[str], statement: Change) -> None:
        """Refuse columns that the table does not have, before anything is written."""
        known = [c.name for c in filled(table)]
        for name in named:
            if name not in known:
                raise SqlError(
                    f"table {table.name} has no column {name}",
                    place=statement.table.place,
                    remedy=did_you_mean(name, known),
                )
        bind_returning(statement, table, self.catalog)
