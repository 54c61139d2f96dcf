"""Executes the delta rules: the derivation of a stage's changes in one epoch becomes a Spark frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from icestream.functions.expression_errors import Failures
from icestream.functions.expressions import ColumnRef
from icestream.lake.fold import DELETE, OFFSET, OP, PARTITION, STREAM, UPSERT
from icestream.plan.derivation import read_of
from icestream.plan.logical import Lookup, Node, Scan, walk
from icestream.plan.maintain import WEIGHT, State, Times
from icestream.plan.spark import render
from icestream.plan.stages import Stage
from icestream.runtime.temp_views import TempViews
from icestream.types import backtick, stored_spark_type

Face = Callable[[str, str, int], DataFrame]
"""(relation, old | new | delta, how often it is read) → its rows; those of a delta with their weight."""

Find = Callable[[str, str, Sequence[str], Sequence[str], DataFrame], DataFrame]
"""(relation, old | new, columns of the key, columns, keys) → the rows of those keys, and perhaps others."""


AS_CHANGES = (
    f"CAST(IF({WEIGHT} > 0, {UPSERT}, {DELETE}) AS TINYINT) AS {OP}",
    f"'' AS {STREAM}",
    f"0 AS {PARTITION}",
    f"0L AS {OFFSET}",
)
"""What makes changes in no order of rows with weights."""


class Computation:
    """How the changes of a stage are computed: the frames that its plan reads, under names in `views`."""

    def __init__(
        self,
        spark: SparkSession,
        face: Face,
        find: Find,
        now: str,
        views: TempViews,
        failures: Failures | None,
        cancellable: bool,
    ) -> None:
        self.spark = spark
        self.face = face
        self.find = find
        self.now = now
        self.views = views
        self.failures = failures
        self.cancellable = cancellable
        self._inputs: dict[str, str] = {}
        self._found: dict[Lookup, Scan] = {}

    def changes(
        self,
        stage: Stage,
        states: Mapping[str, State],
        *,
        first: bool,
        times: Times,
        marks: Sequence[str] = AS_CHANGES,
    ) -> DataFrame | None:
        """What comes and goes in the stage's table: its columns as they are stored, and the marks. None: nothing."""
        plan = stage.derive_changes(states, first=first, times=times).plan
        if plan is None:
            return None
        self._open(plan)
        names = [(backtick(c.name), stored_spark_type(c.type)) for c in stage.columns]
        stored = [f"CAST({name} AS {type}) AS {name}" for name, type in names]
        rows = self._text(self._resolved(plan))
        return self.spark.sql(f"SELECT {', '.join([*stored, *marks])} FROM ({rows})")

    def _open(self, plan: Node) -> None:
        """Give every face of a relation that the plan scans a name in the session."""
        scans = [n for n in walk(plan) if isinstance(n, Scan)]
        uses = Counter(n.relation for n in scans)
        for at, scan in {n.relation: n for n in scans}.items():
            read = read_of(scan)
            self._keep(at, self.face(read.relation, read.face, uses[at]))

    def _resolved(self, node: Node) -> Node:
        """The plan with every look-up in the place of a scan of what was found."""
        node = node.with_inputs([self._resolved(i) for i in node.inputs])
        if not isinstance(node, Lookup):
            return node
        if node not in self._found:
            read = read_of(node)
            stored = [i.expr.name for i in node.items if isinstance(i.expr, ColumnRef)]
            columns = sorted(dict.fromkeys(stored))
            keys = self._frame(node.keys)
            rows = self.find(read.relation, read.face, read.by, columns, keys)
            at = f"{node.relation}?{len(self._found)}"
            self._keep(at, rows)
            self._found[node] = Scan(at, node.name, node.items)
        return self._found[node]

    def _frame(self, plan: Node) -> DataFrame:
        return self.spark.sql(self._text(plan))

    def _text(self, plan: Node) -> str:
        return render(plan, self._inputs, self.now, self.failures, cancellable=self.cancellable)

    def _keep(self, at: str, frame: DataFrame) -> None:
        self._inputs[at] = self.views.add(frame)
