"""CREATE SINK … INTO a table: what is bound, what is refused, in which order an epoch works."""

from __future__ import annotations

from pathlib import Path

import pytest

from icestream.catalog.alter import alter
from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import make_plan
from icestream.catalog.objects import Object, Sink
from icestream.catalog.show import explain_object
from icestream.catalog.store import Store
from icestream.config import Home
from icestream.errors import NotSupportedError, SqlError
from icestream.plan.logical import Project
from icestream.plan.text import text as text_of
from icestream.server.failures import code_of
from icestream.sql import parse
from icestream.sql import statements as st

BASE = (
    "CREATE TABLE a (id INT PRIMARY KEY, n BIGINT, s VARCHAR)",
    "CREATE TABLE log (id INT, s VARCHAR)",
    "CREATE TABLE once (id INT PRIMARY KEY, s VARCHAR) APPEND ONLY",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT DEFAULT 7, s VARCHAR, twice INT AS n * 2)",
    "CREATE MATERIALIZED VIEW over_t AS SELECT count(*) AS n FROM t",
)
SOURCE = """CREATE SOURCE src (id INT, at TIMESTAMP{mark}) WITH (
  connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1') FORMAT PLAIN ENCODE JSON"""


class Bench:
    """A catalog in memory."""

    def __init__(self, root: Path) -> None:
        self.catalog = Catalog(Store(Home.at(root)), {})
        self.bind(*BASE)

    def bind(self, *texts: str) -> Object:
        for text in texts:
            (statement,) = parse(text, "x.sql", {})
            change = self.catalog.examine(statement)
            self.catalog.learn(change)
        return change.object

    def sink(self, text: str) -> Sink:
        found = self.bind(text)
        assert isinstance(found, Sink)
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "home")


def test_columns_are_converted_and_the_others_have_their_default(bench: Bench) -> None:
    sink = bench.sink("CREATE SINK k INTO t (s, id) AS SELECT n, id FROM a")
    assert (sink.connector, sink.into) == ("table", bench.catalog.objects["t"])
    assert [c.name for c in sink.columns] == ["s", "id"]
    assert isinstance(sink.query, Project)
    assert sink.query.names == ("id", "n", "s")
    assert text_of(sink.query.items[1].expr) == "7"
    short = bench.sink("CREATE SINK by_order INTO t AS SELECT id FROM a")
    assert short.query.names == ("id", "n", "s")


def test_an_epoch_fills_the_table_after_what_its_sinks_read(bench: Bench) -> None:
    bench.bind(
        "CREATE MATERIALIZED VIEW sums AS SELECT n AS id, count(*) AS many FROM a GROUP BY n",
        "CREATE MATERIALIZED VIEW more AS SELECT id, many + 1 AS many FROM sums",
        "CREATE SINK one INTO t AS SELECT id, many FROM more",
        "CREATE SINK two INTO t AS SELECT id, n FROM a",
    )
    plan = make_plan(bench.catalog)
    level = {task.key: task.level for task in plan.tasks}
    keys = {name: o.key for name, o in bench.catalog.objects.items()}
    order = [level[keys[name]] for name in ("a", "sums", "more", "t", "over_t")]
    assert order == sorted(set(order))
    (table,) = [task for task in plan.tasks if task.key == keys["t"]]
    assert [part.object.name for part in table.parts] == ["one", "two"]
    assert keys["one"] not in level
    assert all(part.committer == keys["t"] for part in table.parts)


def test_a_table_may_get_columns_and_another_name(bench: Bench) -> None:
    bench.bind("CREATE SINK k INTO t (id, s) AS SELECT n, s FROM a WITH (type = 'upsert')")
    before = bench.catalog.objects["k"]
    catalog = bench.catalog
    for text in ("ALTER TABLE t ADD COLUMN more INT", "ALTER TABLE t RENAME TO named"):
        (statement,) = parse(text, "x.sql", {})
        assert isinstance(statement, st.Alter)
        found = alter(statement, catalog).catalog
        assert found is not None
        catalog = found
    sink, table = catalog.objects["k"], catalog.objects["named"]
    assert isinstance(sink, Sink)
    assert sink.into == table
    assert sink.query.names == ("id", "n", "s", "more")
    assert sink.columns == before.columns
    assert explain_object(sink)[0].endswith("→ table named")
    tasks = {task.key: task for task in make_plan(catalog).tasks}
    assert [part.key for part in tasks["t#4"].parts] == [before.key]


def test_a_table_is_needed_by_the_sinks_into_it(bench: Bench) -> None:
    bench.bind("CREATE SINK k INTO t AS SELECT id FROM a")
    catalog = bench.catalog
    assert {o.name for o in catalog.dependents(catalog.objects["t"])} == {"over_t", "k"}
    assert [o.name for o in catalog.dependents(catalog.objects["a"])] == ["k"]


STAGED = {
    "SELECT id, n FROM a": 0,
    "SELECT id, n FROM a WHERE n > 5": 0,
    "SELECT n AS id FROM a": 1,  # several rows of a key: the first one is shown
    "SELECT n AS id, count(*) FROM a GROUP BY n": 1,
}


def test_a_query_is_kept_where_its_changes_alone_do_not_tell(bench: Bench) -> None:
    for number, (query, stages) in enumerate(STAGED.items()):
        sink = bench.sink(f"CREATE SINK k{number} INTO t AS {query}")
        assert (query, len(sink.stages)) == (query, stages)
    bench.bind(SOURCE.format(mark=""))
    assert not bench.sink("CREATE SINK plain INTO t AS SELECT id FROM src").stages
    mark = ", WATERMARK FOR at AS at - INTERVAL '1 minute'"
    bench.bind(SOURCE.replace("src", "timed").format(mark=mark))
    assert bench.sink("CREATE SINK timed_in INTO t AS SELECT id FROM timed").stages


REFUSED = {
    "INTO nothing AS SELECT id FROM a": 'table "nothing" does not exist',
    "INTO over_t AS SELECT id FROM a": '"over_t" is a materialized view',
    "INTO t (id, x) AS SELECT id, n FROM a": "table t has no column x to fill",
    "INTO t (id, twice) AS SELECT id, n FROM a": "table t has no column twice to fill",
    "INTO t (id, id) AS SELECT id, n FROM a": "column 'id' of sink k is there twice",
    "INTO t (id, n) AS SELECT id FROM a": "gives 1 columns, but 2 of table t take them",
    "INTO log AS SELECT id, s, n FROM a": "gives 3 columns, but 2 of table log take them",
    "INTO t (n) AS SELECT n FROM a": "does not fill column id of table t, which is the primary key",
    "INTO t AS SELECT s FROM a": 'column "id" is of type bigint but expression is of type text',
    "INTO log AS SELECT id, s FROM a": "only adds rows to log, but those of a change",
    "INTO once AS SELECT id, s FROM a": "only adds rows to once, but those of a change",
    "INTO t AS SELECT id FROM a WITH (type = 'append-only')": "only adds rows to t",
    "INTO log AS SELECT id FROM once WITH (type = 'upsert')": "table log has no primary key",
    "INTO once AS SELECT id FROM once WITH (type = 'upsert')": "table once is APPEND ONLY",
    "INTO t AS SELECT id FROM a WITH (connector = 'kafka')": "no connector and no FORMAT",
    "INTO t AS SELECT id FROM a WITH (typ = 'upsert')": "typ",
    "INTO t FROM t": "would read what it fills: table t",
    "INTO t AS SELECT n AS id FROM over_t": "would read what it fills: table t, through over_t",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused(bench: Bench, text: str) -> None:
    with pytest.raises(SqlError) as error:
        bench.bind(f"CREATE SINK k {text}")
    assert REFUSED[text] in error.value.message
    assert error.value.place is not None
    assert "k" not in bench.catalog.objects


def test_what_changes_goes_into_a_table_that_only_grows_if_that_is_forced(bench: Bench) -> None:
    for table in ("log", "once"):
        sink = bench.sink(
            f"CREATE SINK into_{table} INTO {table} AS SELECT id, s FROM a WITH (force_append_only = 'true')"
        )
        assert (sink.upsert, sink.drops_deletes) == (None, True)
    grows = bench.sink("CREATE SINK grows INTO log FROM once")
    assert (grows.upsert, grows.drops_deletes) == (None, False)


def test_a_circle_over_other_sinks_is_refused(bench: Bench) -> None:
    bench.bind("CREATE TABLE u (id BIGINT PRIMARY KEY)", "CREATE SINK k INTO u AS SELECT n AS id FROM over_t")  # fmt: skip
    with pytest.raises(SqlError, match="table t, through u and over_t") as error:
        bench.bind("CREATE SINK back INTO t AS SELECT id FROM u")
    assert code_of(error.value) == "42P17"
    bench.bind("CREATE SINK no_circle INTO u AS SELECT id FROM a")


def test_tables_of_others_and_with_a_watermark_take_no_sinks(bench: Bench) -> None:
    bench.bind(SOURCE.replace("SOURCE src", "TABLE fed").format(mark=""))
    with pytest.raises(SqlError, match="filled by its connector"):
        bench.bind("CREATE SINK k INTO fed AS SELECT id FROM a")
    bench.bind("CREATE TABLE marked (id INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY")
    with pytest.raises(NotSupportedError, match="which has a watermark"):
        bench.bind("CREATE SINK k INTO marked AS SELECT id FROM once")


def test_explain(bench: Bench) -> None:
    lines = explain_object(bench.sink("CREATE SINK k INTO t AS SELECT id, n + 1 AS n FROM a"))
    assert lines[0] == "Sink k: upsert by (id), exactly once → table t"
    assert any("Scan a" in line for line in lines)
    kept = explain_object(
        bench.sink("CREATE SINK g INTO t AS SELECT n, count(*) FROM a GROUP BY n")
    )
    assert any("Stage 1" in line for line in kept)
