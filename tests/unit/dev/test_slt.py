"""sqllogictest files: what is a record, what passes, and what must fail. Statements really run, on DuckDB."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from icestream.dev.duck import open_duckdb
from icestream.dev.slt import __main__ as command
from icestream.dev.slt.database import Answer, Database, StatementError
from icestream.dev.slt.parser import parse, read
from icestream.dev.slt.records import (
    Condition,
    Control,
    ExpectedError,
    Halt,
    History,
    Include,
    Let,
    Query,
    Retry,
    Sleep,
    Statement,
    System,
)
from icestream.dev.slt.runner import Outcome, Runner, completed
from icestream.dev.slt.substitution import SubstitutionError, substitute
from icestream.errors import ConfigError, ConnectorError, SqlError


class DuckDatabase:
    """A session of an in-memory DuckDB, whose values are written as PostgreSQL writes them."""

    def __init__(self, shared: duckdb.DuckDBPyConnection) -> None:
        self._session = shared.cursor()
        self.closed = False

    def execute(self, sql: str) -> Answer:
        try:
            found = self._session.execute(sql)
        except duckdb.Error as error:
            raise StatementError(
                str(error), "42P01" if "not exist" in str(error) else None
            ) from None
        rows = tuple(tuple(map(_text, row)) for row in found.fetchall())
        names = [column[0] for column in found.description or ()]
        if names == ["Count"]:
            return Answer(count=int(rows[0][0] or 0) if rows else 0)
        return Answer(len(names), rows)

    def close(self) -> None:
        self._session.close()
        self.closed = True


def _text(value: Any) -> str | None:
    return (
        {True: "t", False: "f"}[value]
        if isinstance(value, bool)
        else None
        if value is None
        else str(value)
    )


@pytest.fixture
def duck() -> Callable[[], DuckDatabase]:
    shared = open_duckdb()
    return lambda: DuckDatabase(shared)


Run = Callable[..., list[Outcome]]


@pytest.fixture
def run(duck: Callable[[], DuckDatabase]) -> Run:
    def run(text: str, *labels: str, **variables: str) -> list[Outcome]:
        with Runner(duck, labels, variables) as runner:
            return list(runner.run(parse(text, "case.slt")))

    return run


def failures(outcomes: list[Outcome]) -> list[str]:
    return [outcome.failure for outcome in outcomes if outcome.failure]


# the parser


def statement(text: str) -> Statement:
    (record,) = parse(text)
    assert isinstance(record, Statement)
    return record


def query(text: str) -> Query:
    (record,) = parse(text)
    assert isinstance(record, Query)
    return record


def test_statements() -> None:
    made = statement("statement ok\nselect 1,\n  2;\n\n")
    assert made.sql == "select 1,\n  2;"
    assert (made.count, made.error, made.retry, made.connection) == (None, None, Retry(), "default")
    assert (made.place.file, made.place.line) == ("<text>", 1)
    assert statement("statement count 3\nselect 1").count == 3


def test_errors() -> None:
    assert statement("statement error\nx").error == ExpectedError()
    found = statement("statement error no such   (table|view)\nx").error
    assert found
    assert found.pattern == re.compile("no such (table|view)")
    assert statement("statement error (42P01)\nx").error == ExpectedError(sqlstate="42P01")
    both = "statement error\nx\n----\nfirst\n\nthird\n\n\nstatement ok\ny\n"
    first, second = parse(both)
    assert isinstance(first, Statement)
    assert first.error == ExpectedError(message="first\n\nthird")
    assert isinstance(second, Statement)
    assert second.sql == "y"
    assert query("query error syntax\nx").error == ExpectedError(re.compile("syntax"))
    assert query("query error\nx\n----\nat the end").error == ExpectedError(message="at the end")


def test_queries() -> None:
    made = query("query IT rowsort label-1\nselect *\nfrom t\n----\n1 a\n2 b\n")
    assert (made.sql, made.sort, made.results) == ("select *\nfrom t", "rowsort", ("1 a", "2 b"))
    assert query("query I label\nx\n----\n1").sort is None
    assert query("query ?RB nosort\nx\n----").results == ()
    assert query("query\nx").results == ()
    assert query("query T\nx\n----\n# no comment\n  \n-- 2").results == (
        "# no comment",
        "  ",
        "-- 2",
    )


def test_retries() -> None:
    three = Retry(3, 1.5)
    assert statement("statement ok retry 3 backoff 1500ms\nx").retry == three
    assert statement("statement count 1 retry 3 backoff 1s500ms\nx").retry == three
    assert query("query I retry 3 backoff 1500ms\nx").retry == three
    assert query("query I valuesort retry 3 backoff 1500ms\nx").retry == three
    assert query("query I rowsort label retry 3 backoff 1500ms\nx").retry == three
    made = query("query error retry 3 backoff 1500ms\nx\n----\ngone\n")
    assert (made.retry, made.error) == (three, ExpectedError(message="gone"))
    assert statement("statement error retry 3 backoff 1500ms\nx").retry == three


def test_what_steers() -> None:
    text = """
        sleep 100ms
        halt
        subtest of something
        include ./parts/*.slt.part
        hash-threshold 8
        control sortmode rowsort
        control resultmode valuewise
        control substitution on
    """
    sleep, halt, include, *controls = parse(text)
    assert isinstance(sleep, Sleep)
    assert sleep.seconds == pytest.approx(0.1)
    assert isinstance(halt, Halt)
    assert isinstance(include, Include)
    assert include.pattern == "./parts/*.slt.part"
    assert [(c.what, c.value) for c in controls if isinstance(c, Control)] == [
        ("hash-threshold", "8"),
        ("sortmode", "rowsort"),
        ("resultmode", "valuewise"),
        ("substitution", "on"),
    ]


def test_conditions_and_connections_belong_to_the_next_record() -> None:
    text = "skipif a\n\nonlyif b # for a reason\n# a comment\nconnection other\nstatement ok\nx\n\nstatement ok\ny"
    first, second = parse(text)
    assert isinstance(first, Statement)
    assert first.conditions == (Condition(False, "a"), Condition(True, "b"))
    assert first.connection == "other"
    assert isinstance(second, Statement)
    assert (second.conditions, second.connection) == ((), "default")


def test_let() -> None:
    for text in ("let a\nselect 1\n", "let $a = select 1\n", "let  $a\nselect 1\n"):
        (made,) = parse(text)
        assert isinstance(made, Let)
        assert (made.names, made.sql) == (("a",), "select 1")
    (made,) = parse("let a,b , _c1\nselect 1, 2,\n3")
    assert isinstance(made, Let)
    assert (made.names, made.sql) == (("a", "b", "_c1"), "select 1, 2,\n3")


def test_system_records_are_known() -> None:
    first, second, third = parse(
        "system ok\necho hi\n----\nhi\n\n\nsystem error\nfalse\n\nstatement ok\nx"
    )
    assert isinstance(first, System)
    assert isinstance(second, System)
    assert isinstance(third, Statement)


HISTORY = """statement ok
create table h (n int)

history begin

# after every epoch
query I
select count(*) >= 1 from h
----
t

statement ok
insert into h values (1)

onlyif other
statement ok
nonsense

statement ok
insert into h values (2)

statement ok
insert into h values (3)

history   end

query I
select sum(n) from h
----
6
"""


def test_histories() -> None:
    _, history, last = parse(HISTORY)
    assert isinstance(history, History)
    assert isinstance(last, Query)
    assert [len(part) for part in history.split(3)] == [1, 1, 2]
    assert sum(history.split(2), ()) == history.statements
    assert [q.results for q in history.queries] == [("t",)]
    assert history.statements[1].conditions == (Condition(True, "other"),)
    assert history.place.line == 4


def test_a_history_is_split_into_transactions(duck: Callable[[], DuckDatabase]) -> None:
    with Runner(duck, epochs=3, flush="CHECKPOINT") as runner:
        outcomes = list(runner.run(parse(HISTORY)))
    assert failures(outcomes) == []
    sent = [o.record.sql.split()[0] for o in outcomes if isinstance(o.record, Statement)]
    one = ["BEGIN", "insert", "COMMIT", "CHECKPOINT"]
    skipped = ["BEGIN", "nonsense", "COMMIT", "CHECKPOINT"]
    assert sent == ["create", *one, *skipped, "BEGIN", "insert", *one[1:]]
    assert sum(o.skipped for o in outcomes) == 1


def test_odd_spacing() -> None:
    text = "\n\n\t statement   ok \nselect 1\n   \nfrom t\n\n\n  # a comment\n query\tI  rowsort \nselect 2\n---- \n 2 \n"
    first, second = parse(text)
    assert isinstance(first, Statement)
    assert first.sql == "select 1\n   \nfrom t"  # only an empty line ends a record
    assert isinstance(second, Query)
    assert (second.sql, second.sort, second.results) == ("select 2", "rowsort", (" 2 ",))
    assert statement("statement ok\n\nselect 1").sql == "\nselect 1"


def test_lines_may_end_as_on_windows() -> None:
    text = "statement ok\nselect 'a\fb'\n\nquery I\nselect 1\n----\n1\n\nsleep 1s\n"
    plain, windows = parse(text), parse(text.replace("\n", "\r\n"))
    assert [vars(r) | {"place": r.place.line} for r in plain] == [
        vars(r) | {"place": r.place.line} for r in windows
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# fine\n\nfrobnicate 1", "case.slt:3:1: unknown record: frobnicate 1"),
        ("statement", "unknown record"),
        ("statement maybe\nx", "unknown record"),
        ("statement ok", "nothing stands below it"),
        ("statement ok\n\n\nstatement ok\nx", "nothing stands below it"),
        ("statement ok\nx\n----\n1", "write query"),
        ("statement count many\nx", "many is no number"),
        ("statement ok retry 3\nx", "expected retry <attempts> backoff <time>"),
        ("statement ok retry 0 backoff 1s\nx", "expected retry"),
        ("statement error (\nx", "no regular expression"),
        ("statement error a\nx\n----\na", "not in both"),
        ("query I rowsort label more\nx", "expected retry"),
        ("control sortmode upwards", "one of nosort, rowsort, valuesort"),
        ("control weather fine", "unknown record"),
        ("hash-threshold -1", "-1 is no number"),
        ("sleep 5", "5 is no time"),
        ("sleep 5 s", "unknown record"),
        ("sleep 5parsecs", "no time"),
        ("let\nselect 1", "no name of a variable"),
        ("let 1a\nselect 1", "'1a' is no name"),
        ("include a b", "unknown record"),
        ("history begin\nstatement ok\nx\n", "history begin without history end"),
        ("history begin\nsleep 1s\nhistory end", "statements and queries alone"),
        ("history end", "unknown record"),
        ("connection a", "no record comes after it"),
        ("skipif a\n", "no record comes after it"),
    ],
)
def test_what_is_no_record(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=re.escape(message)):
        parse(text, "case.slt")


def test_include(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("b", "a"):
        (tmp_path / "parts" / f"{name}.part").write_text(f"statement ok\n{name}\n")
    top = tmp_path / "top.slt"
    top.write_text("onlyif x\ninclude parts/*.part\n\nstatement ok\nlast\n")
    made = [record for record in read(top) if isinstance(record, Statement)]
    assert [record.sql for record in made] == ["a", "b", "last"]
    assert [len(record.conditions) for record in made] == [1, 1, 0]
    assert made[0].place.file == str(tmp_path / "parts" / "a.part")
    top.write_text("\ninclude nothing/*.part\n")
    with pytest.raises(SqlError, match=r"top.slt:2:1: no file is nothing"):
        list(read(top))
    (tmp_path / "parts" / "a.part").write_text("include ../top.slt\n")
    top.write_text("include parts/a.part\n")
    with pytest.raises(SqlError, match=r"a.part:1:1: .*top.slt includes itself"):
        list(read(top))
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read(tmp_path / "missing.slt"))


# substitution


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("select '$a', ${b}", "select '1', 2"),
        ("${a:x} ${c:x} ${c:} ${empty:x}|", "1 x  |"),
        ("${c:$a-${d:${b}}}", "1-2"),
        (r"\$a \\ \{\}\: {}:", r"$a \ {}: {}:"),
        (r"${c:\}\:}", "}:"),
        ("a$a.b", "a1.b"),
    ],
)
def test_substitution(text: str, made: str) -> None:
    assert substitute(text, {"a": "1", "b": "2", "empty": ""}) == made


@pytest.mark.parametrize(
    "text", ["$x", "${x}", "$", "$ a", "${a", "${a:b", "${}", r"\d", "\\", "${a b}"]
)
def test_what_cannot_be_substituted(text: str) -> None:
    with pytest.raises(SubstitutionError):
        substitute(text, {"a": "1"})


# the runner


BASICS = """
statement ok
create table t (id int, name varchar, ok boolean)

statement count 4
insert into t values (1, 'one', true), (2, null, false), (3, '', null), (10, 'a  b', true)

query ITB
select * from t order by id
----
1   one     t
2   NULL    f
3   (empty) NULL
10  a b     t

query I
select id from t where id > 100
----

query I rowsort
select id from t order by id desc
----
1
10
2
3

query IT valuesort a-label
select id, name from t where id < 3
----
1
2
NULL
one

statement count 2
select id from t where id > 2

statement error does not exist
select * from missing

statement error (42P01)
select * from missing

query error
select nothing from t
"""


def test_what_passes(run: Run) -> None:
    outcomes = run(BASICS)
    assert failures(outcomes) == []
    assert len(outcomes) == 10


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("statement ok\nselect * from missing", "it failed: Catalog Error"),
        ("statement error\nselect 1", "it succeeded\nexpected: any error"),
        ("statement error \\bfriend\\b\nselect * from missing", "expected: matching"),
        ("statement error (22012)\nselect * from missing", "expected: SQLSTATE 22012"),
        ("statement error\nselect * from missing\n----\nsomething else", "expected: something else"),
        ("statement count 2\nselect 1", "expected 2 rows, got 1"),
        ("statement count 2\ncreate table c as select 1", "expected 2 rows, got 1"),
        ("query error\nselect 1", "it succeeded"),
        ("query I\nselect * from missing\n----\n1", "it failed"),
        ("query I\nselect 1\n----\n2", "- expected, + actual\n-2\n+1"),
        ("query I\nselect 1\n----", "- expected, + actual\n+1"),
        ("query I\nselect 1", "- expected, + actual\n+1"),
        ("query I\nselect 1 where false\n----\n1", "- expected, + actual\n-1"),
        ("query II\nselect 1, 2\n----\n1\n2", "+1 2"),
        ("query I rowsort\nvalues (1), (2)\n----\n2\n1", "expected"),
        ("query T\nselect null\n----\n(empty)", "+NULL"),
        ("query T\nselect ''\n----\nNULL", "+(empty)"),
        ("query T\nselect '--2'\n----\n--1", "---1\n+--2"),
        ("query I\nvalues (1), (2), (2)\n----\n1\n2", "+2"),
        ("query T\nselect 'abc'\n----\na<slt:ignore>d", "+abc"),
        ("query I\nvalues (1), (2)\n----\n2 values hashing to " + "0" * 32, "+2 values hashing to"),
        ("query I\nselect 1\n----\n1 values hashing to xyz", "+1"),
        ("hash-threshold 1\nquery I\nvalues (1), (2)\n----\n", "+2 values hashing to"),
        ("let a\nselect 1, 2", "expected 1 row of 1 values, got 1 of 2"),
        ("let a\nvalues (1), (2)", "got 2 of 1"),
        ("let a\nselect * from missing", "it failed"),
        ("control substitution on\nstatement error\nselect $missing_variable", "no variable missing_variable"),
        ("system ok\ntouch somewhere", "refused: a test file never runs commands"),
        ("system error\nfalse", "refused"),
    ],
)  # fmt: skip
def test_what_fails(run: Run, text: str, failure: str) -> None:
    (outcome,) = run(text)
    assert outcome.failure
    assert failure in outcome.failure


def test_hashes(run: Run) -> None:
    digest = hashlib.md5(b"1\na  b\n2\nNULL\n").hexdigest()
    text = f"query IT\nvalues (1, 'a  b'), (2, null)\n----\n4 values hashing to {digest}\n"
    assert failures(run(text)) == []
    assert failures(run(f"hash-threshold 3\n{text}")) == []
    rows = "hash-threshold 1\n\nquery I\nvalues (1), (2)\n----\n1\n2\n"
    assert failures(run(rows)) == []  # rows that are told are compared as rows


def test_controls(run: Run) -> None:
    text = """
control sortmode rowsort

query I
values (2), (1)
----
1
2

query I nosort
values (2), (1)
----
2
1

control resultmode valuewise

query II
values (3, 4), (1, 2)
----
1
2
3
4

control resultmode rowwise
control sortmode nosort

query TT
values ('a cost=12', 'x'), ('b', 'y')
----
a cost=<slt:ignore> x
b <slt:ignore>
"""
    assert failures(run(text)) == []


def test_conditions(run: Run) -> None:
    text = "skipif a\nstatement ok\nnonsense\n\nonlyif b\nstatement ok\nnonsense\n\nonlyif b\nhalt\n\nstatement ok\nselect 1\n"
    assert [(o.skipped, bool(o.failure)) for o in run(text, "a")] == [
        (True, False),
        (True, False),
        (False, False),
    ]
    assert [(o.skipped, bool(o.failure)) for o in run(text, "b")] == [(False, True), (False, True)]


def test_variables(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "outside")
    text = """
statement ok
create table price as select '$a' as dollars

control substitution on

let a, b
select 40 + 2, 'x'

let $c = select $a + 1

query TTTT
select '$a$b', $c, '${FROM_OUTSIDE}', '${given}' from price where dollars = '\\$a'
----
42x 43 outside given

query B
select $__NOW__ > 1700000000000000000
----
t

control substitution off

query T
select '$a'
----
$a
"""
    assert failures(run(text, given="given")) == []


def test_a_folder_of_its_own(run: Run) -> None:
    text = """
control substitution on

statement ok
copy (select 7 as x) to '$__TEST_DIR__/x.csv'

query I
select x from '$__TEST_DIR__/x.csv'
----
7

let folder
select '$__TEST_DIR__'

query T
select '$folder'
----
"""
    *_, last = run(text)
    assert last.actual
    assert not Path(last.actual[0]).exists()


def test_sessions(duck: Callable[[], DuckDatabase]) -> None:
    opened: list[DuckDatabase] = []

    def connect() -> Database:
        opened.append(duck())
        return opened[-1]

    text = """
statement ok
create table t as select 1 as x

connection second
statement ok
begin

connection second
statement ok
insert into t values (2)

query I
select count(*) from t
----
1

connection second
statement ok
commit

connection default
query I
select count(*) from t
----
2
"""
    with Runner(connect) as runner:
        assert failures(list(runner.run(parse(text)))) == []
    assert [session.closed for session in opened] == [True, True]


def test_retries_end_when_it_holds(run: Run) -> None:
    text = """
statement ok
create sequence s

query I retry 5 backoff 1ms
select nextval('s')
----
3

query I retry 2 backoff 1ms
select nextval('s')
----
9

query I
select nextval('s')
----
6
"""
    outcomes = run(text)
    assert [bool(outcome.failure) for outcome in outcomes] == [False, False, True, False]


def test_waiting(run: Run) -> None:
    began = time.monotonic()
    run("sleep 30ms\n\nstatement ok retry 3 backoff 20ms\nnonsense\n")
    assert 0.07 <= time.monotonic() - began < 5


def test_a_lost_session_is_no_expected_error(duck: Callable[[], DuckDatabase]) -> None:
    class Lost(DuckDatabase):
        def execute(self, sql: str) -> Answer:
            if sql == "crash":
                raise ConnectorError("the session is lost")
            return super().execute(sql)

    opened = []

    def connect() -> Database:
        opened.append(Lost(open_duckdb()))
        return opened[-1]

    with Runner(connect) as runner:
        outcomes = list(runner.run(parse("statement error\ncrash\n\nstatement ok\nselect 1\n")))
    assert failures(outcomes) == ["the session is lost"]
    assert len(opened) == 2


def test_completion(run: Run) -> None:
    text = "query I\nselect 1\n----\n1\n\nquery I rowsort\nvalues (3), (2)\n----\nx\ny\nz\n\nquery II\nselect 4, 5\n\nquery T\nselect 6"
    made = completed(text, run(text))
    assert failures(run(made)) == []
    assert made.startswith(
        "query I\nselect 1\n----\n1\n\nquery I rowsort\nvalues (3), (2)\n----\n2\n3\n\nquery II"
    )
    windows = text.replace("\n", "\r\n")
    assert completed(windows, run(windows)) == made.replace("\n", "\r\n")


# the command


@pytest.fixture
def main(
    duck: Callable[[], DuckDatabase], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., int]:
    monkeypatch.setattr(command, "PostgresDatabase", lambda url: duck())
    monkeypatch.chdir(tmp_path)
    return lambda *args: command.main(args)


def test_the_command(
    main: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.slt").write_text(
        "statement ok\nselect 1\n\nquery I\nselect\n  1\n----\n2\n\nquery I\nselect 3\n----\n4\n"
    )
    (tmp_path / "b.slt").write_text("skipif icestream\nstatement ok\nnonsense\n")
    assert main("a.slt", "b.slt") == 1
    told = capsys.readouterr().out
    assert (
        "a.slt:4: query I\n    select\n      1\n    - expected, + actual\n    -2\n    +1\n" in told
    )
    assert "1 passed, 1 failed, 0 skipped in 2 files, " in told
    assert main("--keep-going", ".") == 1
    assert "1 passed, 2 failed, 1 skipped in 2 files, " in capsys.readouterr().out
    assert main("--override", "a.slt") == 0
    assert "1 passed, 0 failed, 0 skipped, 2 written in 1 files, " in capsys.readouterr().out
    assert main("a.slt") == 0
    assert main("--dialect", "other", "b.slt") == 1
    assert main("--dialect", "other", "--label", "icestream", "b.slt") == 0


def test_nothing_is_run_if_a_file_is_wrong(
    main: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.slt").write_text("statement ok\nnonsense\n")
    (tmp_path / "b.slt").write_text("stetement ok\nselect 1\n")
    assert main("a.slt", "b.slt") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "b.slt:1:1: unknown record: stetement ok" in told.err
    assert main("missing.slt") == 2
    (tmp_path / "empty").mkdir()
    assert main("empty") == 2


def test_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.slt").write_text("statement error\nselect 1\n")
    url = "postgresql://root@127.0.0.1:1/dev?connect_timeout=2"
    assert command.main(["--url", url, str(tmp_path / "a.slt")]) == 1
    assert "no session with the server" in capsys.readouterr().out
