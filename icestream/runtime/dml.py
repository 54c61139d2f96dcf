"""INSERT, UPDATE and DELETE: rows are computed like a query's, and kept in a transaction until it is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from icestream.catalog.catalog import Catalog
from icestream.catalog.lineage import is_filled_by_statements, statement_tables
from icestream.catalog.objects import Sink, Table
from icestream.connectors.base import Column
from icestream.errors import LakeError, Place, SqlError, did_you_mean
from icestream.functions.expressions import Expr, Literal
from icestream.lake import keys
from icestream.lake.dml_log import DmlLog, TableChanges
from icestream.lake.fold import DELETE, OP, PATCH, UPSERT, Upsert, net
from icestream.plan.assignment import LOST, Target, bind_assigned, is_default
from icestream.plan.calls import converted
from icestream.plan.linear import relations_read
from icestream.plan.logical import Filter, Item, Node, Project, Scan
from icestream.plan.query import bind_query
from icestream.result import Result
from icestream.runtime.constants import constant_rows, with_items
from icestream.runtime.query import frame_of
from icestream.runtime.returning import Change, bind_returning, filled, returned
from icestream.runtime.spark_jobs import cancellable
from icestream.runtime.transaction import Transaction
from icestream.sql import statements as st
from icestream.sql.trees import alias, named_column, select_from
from icestream.types import arrow_type, backtick

NOWHERE = Place("", 1, 1)
"""The place of a query that nobody wrote."""


class Changing:
    """How statements change tables that have no connector."""

    def __init__(
        self,
        catalog: Catalog,
        spark: SparkSession,
        log: DmlLog,
        transaction: Transaction,
        see: Callable[[Iterable[str]], None],
    ) -> None:
        """`see` makes the acknowledged writes to these objects visible."""
        self.catalog = catalog
        self.spark = spark
        self.log = log
        self.transaction = transaction
        self.see = see

    def run(self, statement: Change) -> Result:
        """Put what a statement does into the transaction."""
        if self.transaction.read_only:
            words = type(statement).__name__.upper()
            raise SqlError(f"cannot execute {words} in a read-only transaction", code="25006")
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
        of = {c.name: c for c in columns}
        node = bind_assigned(
            statement.query,
            self.catalog.names().relation,
            [Target(name, name, types[name], _default(of[name])) for name in names],
            every=bool(statement.columns),
        )
        items = [Item(c.name, _default(c)) for c in columns if c.name not in node.names]
        rows = self._rows(table, with_items(node, items)).select(list(types))
        answer = self._answer("INSERT 0", statement, table, rows)
        self._add(table, [(UPSERT, rows)])
        return answer

    def _delete(self, statement: st.Delete) -> Result:
        table = self._changeable(statement.table)
        self._check_columns(table, (), statement)
        rows = self._selected(table, statement, [])[0]
        answer = self._answer("DELETE", statement, table, rows)
        self._add(table, [(DELETE, rows)])
        return answer

    def _update(self, statement: st.Update) -> Result:
        table = self._changeable(statement.table)
        self._check_columns(table, [name for name, _ in statement.assignments], statement)
        set_to = [
            (name, None if is_default(query.tree) else query)
            for name, query in statement.assignments
        ]
        old, new = self._selected(table, statement, set_to)
        moves = any(name in table.primary_key for name, _ in set_to)
        if moves:
            self._check_keys(table, old, new)
        answer = self._answer("UPDATE", statement, table, new)
        if not moves and self._takes_sinks(table):
            names = [c.name for c in filled(table)]
            alone = [n for n, name in enumerate(names) if name not in dict(set_to)]
            self._add(table, [(PATCH, new)], alone)
        else:
            self._add(table, [(DELETE, old), (UPSERT, new)])
        return answer

    def _takes_sinks(self, table: Table) -> bool:
        """Whether sinks change rows of the table in the epoch that takes an UPDATE in: it may set its own columns only.

        With a version column or ON CONFLICT it writes whole rows: there a patch would lose against the stored row, or could
        not set NULL. docs/sql/change.md says so.
        """
        upsert = table.upsert
        if upsert is None or upsert.conflict != "overwrite" or upsert.version:
            return False
        sinks = (o.into for o in self.catalog if isinstance(o, Sink))
        return any(into is not None and into.key == table.key for into in sinks)

    def _check_keys(self, table: Table, old: pa.Table, new: pa.Table) -> None:
        """Refuse new keys that two rows would have. Checked at the end of the statement: rows may exchange their keys."""
        key = list(table.primary_key)
        leaving, coming = _key_values(old, key), _key_values(new, key)
        counted: dict[tuple[object, ...], int] = {}
        for row, value in enumerate(coming):
            if value in counted:
                raise _duplicate(table, new, row)
            counted[value] = row
        moved = counted.keys() - set(leaving)
        if not moved:
            return
        stored = self._stored(table, key)
        rows = new.select(key).take(sorted(counted[value] for value in moved))
        asked = self.spark.createDataFrame(rows)
        same = [stored[backtick(k)] == asked[backtick(k)] for k in key]
        with cancellable(self.spark):
            found = asked.join(stored, same, "left_semi").limit(1).toArrow()
        if len(found):
            raise _duplicate(table, found, 0)

    # -- rows ------------------------------------------------------------------------------------

    def _selected(
        self,
        table: Table,
        statement: st.Update | st.Delete,
        set_to: Sequence[tuple[str, st.Query | None]],
    ) -> tuple[pa.Table, pa.Table]:
        """The rows that a condition names, as they are and as they are to be. A column that is set to None gets its DEFAULT."""
        columns = filled(table)
        changed = dict(set_to)
        exprs = {name: query for name, query in set_to if query is not None}
        items = [alias(named_column(c.name), f"old {c.name}") for c in columns]
        items += [
            alias(exprs[c.name].tree.copy(), f"new {c.name}") for c in columns if c.name in exprs
        ]
        where = statement.where
        tree = select_from(st.Name(table.name), items, where.tree.copy() if where else None)
        source = next((q.source for q in (*exprs.values(), where) if q is not None), None)
        query = st.Query(tree, statement.text, statement.place, source)
        targets = [Target(f"old {c.name}", c.name, c.type) for c in columns]
        targets += [Target(f"new {c.name}", c.name, c.type) for c in columns if c.name in exprs]
        relations = self.catalog.names().relation
        node = bind_assigned(query, relations, targets, row_by_row="UPDATE")
        defaults = [c for c in columns if c.name in changed and c.name not in exprs]
        items = [Item(f"new {c.name}", _default(c)) for c in defaults]
        found = self._rows(table, with_items(node, items))
        old = found.select([f"old {c.name}" for c in columns])
        new = found.select(
            [f"new {c.name}" if c.name in changed else f"old {c.name}" for c in columns]
        )
        names = [c.name for c in columns]
        old, new = old.rename_columns(names), new.rename_columns(names)
        if not _is_one_to_one(node):
            self._check_once(table, old)
        return old, new

    def _check_once(self, table: Table, old: pa.Table) -> None:
        """Refuse a statement that has found a stored row more than once: nothing of it is written.

        The epoch that takes a statement in raises an error for a row that is to go and is not there, and would raise it
        again and again, because the statement was acknowledged. This check makes that impossible for tables without a
        key: a statement takes away only rows that it has read. Nobody else takes them away meanwhile: a statement of
        another session would make the COMMIT fail (`Transaction.write`), and sinks only add rows to such a table
        (`catalog.into.only_adds`). With a key, taking away a row that is not there does nothing.
        """
        key = list(table.primary_key) or old.column_names
        again = _repeated(old, key)
        if not len(again):
            return
        if not table.primary_key:
            stored = self._stored(table, [c.name for c in table.columns])
            asked = self.spark.createDataFrame(again.group_by(key).aggregate([]))
            same = [stored[backtick(k)].eqNullSafe(asked[backtick(k)]) for k in key]
            columns = [stored[backtick(k)] for k in key]
            with cancellable(self.spark):
                there = stored.join(asked, same, "left_semi").select(*columns).toArrow()
            if self.log.last(table.key) > self.transaction.read[table.key]:
                return  # somebody else has written meanwhile: COMMIT tells so
            ops = pa.array([UPSERT] * len(there) + [DELETE] * len(again), pa.int8())
            both = pa.concat_tables([there.cast(again.schema), again]).append_column(OP, ops)
            gone = net(both, key, Upsert(tuple(key), "bag")).gone
            if gone is None or not gone.any():
                return
        raise LakeError(
            f"the statement has found a row of table {table.name} more than once",
            object=table.name,
            remedy="nothing was changed; this is a fault of the engine, please report the statement",
            code="XX000",
        )

    def _stored(self, table: Table, names: Sequence[str]) -> DataFrame:
        """Columns of a table, with the changes of the transaction."""
        tree = select_from(st.Name(table.name), [named_column(name) for name in names])
        query = st.Query(tree, "", NOWHERE)
        node = bind_query(query, self.catalog.names().relation)
        return frame_of(node, self.catalog, self.spark, self.transaction)

    def _rows(self, table: Table, node: Node) -> pa.Table:
        """The rows of assigned values. One that does not fit its column is an error."""
        found = constant_rows(node)
        if found is None:
            self._prepare_reading(node)
            with cancellable(self.spark):
                found = frame_of(node, self.catalog, self.spark, self.transaction).toArrow()
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

    def _prepare_reading(self, node: Node) -> None:
        """Make what a statement reads visible, and note that it was read."""
        read = relations_read(node)
        self.transaction.check_readable(read, self.catalog)
        seen = {key: self.log.last(key) for key in statement_tables(self.catalog, read)}
        self.see(read)
        self.transaction.read = {**seen, **self.transaction.read}

    def _add(
        self,
        table: Table,
        parts: Sequence[tuple[int, pa.Table]],
        alone: Sequence[int] | None = None,
    ) -> None:
        """Take in changes; `alone` are the columns that they leave as they are."""
        rows = pa.concat_tables([rows for _, rows in parts])
        ops = [op for op, part in parts for _ in range(len(part))]
        unset = None if alone is None else [list(alone)] * len(rows)
        self.transaction.add(table, TableChanges(rows, ops, unset))

    def _answer(self, words: str, statement: Change, table: Table, rows: pa.Table) -> Result:
        message = f"{words} {len(rows)}"
        return returned(message, statement, table, rows, self.catalog, self.spark)

    # -- tables ----------------------------------------------------------------------------------

    def _table(self, name: st.Name) -> Table:
        table = self.catalog.names().find(name, Table)
        assert isinstance(table, Table)
        if not is_filled_by_statements(table):
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


def _is_one_to_one(node: Node) -> bool:
    """Whether a plan obviously gives no row of the table twice."""
    while isinstance(node, Project | Filter):
        node = node.input
    return isinstance(node, Scan)


def _repeated(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows that are not the only ones with their values in these columns."""
    seen = Counter(values := _key_values(rows, columns))
    return rows.filter(pa.array([seen[value] > 1 for value in values], pa.bool_()))


def _default(column: Column) -> Expr:
    return converted(column.default or Literal(column.type, None), column.type)


def _key_values(rows: pa.Table, key: Sequence[str]) -> list[tuple[object, ...]]:
    """The keys of rows, such that equal ones are equal values."""
    columns = [keys.canonical(rows[name]).to_pylist() for name in key]
    return list(zip(*columns, strict=True))


def _duplicate(table: Table, rows: pa.Table, row: int) -> SqlError:
    key = ", ".join(table.primary_key)
    value = ", ".join(str(rows[name][row].as_py()) for name in table.primary_key)
    return SqlError(
        f'duplicate key value violates unique constraint "{table.name}_pkey": '
        f"key ({key})=({value}) already exists",
        remedy="nothing was changed",
        code="23505",
    )
