"""The command line without a JVM: usage, exit codes, what is printed where."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from pathlib import Path

import pytest

from icestream import __version__
from icestream.cli import main
from icestream.cli.arguments import settings_of
from icestream.cli.printers import FORMATS
from icestream.config import EngineSettings, Home
from icestream.observe import status as observe
from icestream.runtime.lock import HomeLock

SCRIPT = """-- made-up events
CREATE SOURCE events (id BIGINT NOT NULL, name VARCHAR, at TIMESTAMPTZ) WITH (
  connector = 'datagen', rows = 5
);

CREATE VIEW named AS SELECT id, upper(name) AS name FROM events WHERE name IS NOT NULL;
"""


class Terminal:
    """Runs commands in this process, in a directory of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.out = self.err = ""

    def run(self, *arguments: str) -> int:
        try:
            code = main(arguments)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        self.out, self.err = self.capsys.readouterr()
        return code

    def fine(self, *arguments: str) -> str:
        assert self.run(*arguments) == 0, self.err
        return self.out


@pytest.fixture
def icestream(tmp_path, monkeypatch, capsys) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ICESTREAM_HOME", raising=False)
    monkeypatch.delenv("ICESTREAM_DEBUG", raising=False)
    (tmp_path / "script.sql").write_text(SCRIPT)
    return Terminal(capsys)


@pytest.fixture
def filled(icestream: Terminal) -> Terminal:
    icestream.fine("sql", SCRIPT)
    return icestream


# -- usage -------------------------------------------------------------------------------------------


def test_help_lists_every_command(icestream: Terminal) -> None:
    text = icestream.fine("--help")
    for command in ("run", "sql", "plan", "status", "demo", "dev", "doctor"):
        assert f"\n    {command} " in text


@pytest.mark.parametrize(
    "command", ["run", "sql", "plan", "status", "demo", "dev", "dev kafka", "doctor"]
)
def test_every_command_has_help(icestream: Terminal, command: str) -> None:
    assert f"usage: icestream {command}" in icestream.fine(*command.split(), "--help")


def test_version(icestream: Terminal) -> None:
    assert icestream.fine("--version") == f"icestream {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "COMMAND"),
        (("fly",), "invalid choice: 'fly'"),
        (("plan",), "FILE"),
        (("sql",), "text"),
        (("sql", "SHOW TABLES", "--format", "xml"), "invalid choice: 'xml'"),
        (("run", "--twice"), "--twice"),
        (("dev",), "SERVER"),
        (("dev", "kafka", "--port", "many"), "invalid int value: 'many'"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    icestream: Terminal, arguments: tuple[str, ...], complaint: str
) -> None:
    assert icestream.run(*arguments) == 2
    assert complaint in icestream.err
    assert not icestream.out


@pytest.mark.parametrize(
    ("flag", "value", "complaint"),
    [
        ("--epoch-interval", "soon", "--epoch-interval accepts a duration such as 500ms or 10s"),
        ("--memory", "much", "--memory accepts a size such as 2g"),
        ("--retained-snapshots", "0", "--retained-snapshots accepts a whole number above 0"),
        ("--epoch-target", "soon", "--epoch-target accepts a duration"),
    ],
)
def test_a_wrong_value_says_what_is_accepted(
    icestream: Terminal, flag: str, value: str, complaint: str
) -> None:
    assert icestream.run("run", "script.sql", flag, value) == 1
    assert complaint in icestream.err


def test_flags_become_settings(icestream: Terminal) -> None:
    from icestream.cli import command_line

    args = command_line().parse_args(
        ["run", "--master", "local[1]", "--memory", "1g", "--epoch-interval", "500ms",
         "--epoch-target", "1 min", "--first-epoch-records", "1000", "--retained-snapshots", "7",
         "--merge-small-files-at", "3", "--query-memory", "2g"]
    )  # fmt: skip
    assert settings_of(args) == EngineSettings("local[1]", "1g", "2g", 0.5, 60, 1000, 7, 3)


def test_without_flags_the_settings_are_the_defaults(icestream: Terminal) -> None:
    from icestream.cli import command_line

    for command in (["run"], ["sql", "SHOW ALL"]):
        assert settings_of(command_line().parse_args(command)) == EngineSettings()


# -- plan --------------------------------------------------------------------------------------------


def test_plan_says_what_would_be_created_and_creates_nothing(icestream: Terminal) -> None:
    for _ in range(2):
        lines = icestream.fine("plan", "script.sql").splitlines()
        assert lines[0] == "+ create source events"
        assert "  Source events: datagen, read and decoded once an epoch" in lines[1]
        assert "+ create view named" in lines
        assert lines[-1] == "2 to create, 0 different, 0 unchanged"
    assert icestream.fine("sql", "SHOW SOURCES; SHOW SINKS", "--format", "json") == ""
    assert not Path(".icestream").exists()


def test_plan_of_an_applied_script_is_empty(filled: Terminal) -> None:
    lines = filled.fine("plan", "script.sql").splitlines()
    assert lines == [
        "= source events is unchanged",
        "= view named is unchanged",
        "0 to create, 0 different, 2 unchanged",
    ]


def test_plan_ignores_layout_and_comments(filled: Terminal) -> None:
    text = SCRIPT.replace("\n", "\n\n").replace("CREATE", "create /* again */")
    Path("script.sql").write_text(text)
    assert filled.fine("plan", "script.sql").endswith("2 unchanged\n")


def test_plan_of_a_changed_script_says_what_differs(filled: Terminal) -> None:
    Path("script.sql").write_text(SCRIPT.replace("rows = 5", "rows = 7"))
    assert filled.run("plan", "script.sql") == 1
    assert filled.out.splitlines() == [
        "! source events exists and differs",
        "    -connector = 'datagen', rows = 5",
        "    +connector = 'datagen', rows = 7",
        "= view named is unchanged",
        "0 to create, 1 different, 1 unchanged",
    ]


def test_plan_reads_a_connect_configuration(icestream: Terminal) -> None:
    config = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": "orders",
        "iceberg.tables": "db.orders",
        "consumer.override.bootstrap.servers": "localhost:9092",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "iceberg.catalog.type": "rest",
        "iceberg.catalog.uri": "http://localhost:8181",
    }
    Path("sink.json").write_text(json.dumps({"name": "orders-sink", "config": config}))
    code = icestream.run("plan", "sink.json")
    assert code == 0, icestream.err
    assert "+ create connector orders-sink" in icestream.out


# -- sql ---------------------------------------------------------------------------------------------


def test_rows_as_a_table(filled: Terminal) -> None:
    text = filled.fine("sql", "DESCRIBE events")
    assert [line.split("│")[1].strip() for line in text.splitlines()[2:5]] == [
        "bigint",
        "varchar",
        "timestamptz",
    ]
    assert text.endswith("(3 rows)\n")
    assert "(1 row)" in filled.fine("sql", "SHOW VIEWS")


def test_rows_as_json_lines(filled: Terminal) -> None:
    text = filled.fine("sql", "DESCRIBE events; SHOW SOURCES", "--format", "json")
    rows = [json.loads(line) for line in text.splitlines()]
    assert rows[0] == {"Name": "id", "Type": "bigint", "Not Null": True, "Generated": False}
    assert rows[-1] == {"Name": "events"}


def test_rows_as_csv(filled: Terminal) -> None:
    text = filled.fine("sql", "SHOW CREATE VIEW named", "--format", "csv")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["Name", "Create Sql"]
    assert rows[1][0] == "public.named"
    assert rows[1][1].startswith("CREATE VIEW named AS SELECT id, upper(name)")


@pytest.mark.parametrize("format", FORMATS)
def test_explain_needs_no_jvm(filled: Terminal, format: str) -> None:
    text = filled.fine(
        "sql", "EXPLAIN SELECT name, count(*) FROM named GROUP BY name", "--format", format
    )
    assert "count(*) AS count" in text
    assert "Scan events" in text


def test_show_knows_all_kinds(filled: Terminal) -> None:
    for what in ("SOURCES", "TABLES", "VIEWS", "MATERIALIZED VIEWS", "SINKS", "CONNECTIONS",
                 "CONNECTORS", "SECRETS", "SCHEMAS", "JOBS", "ALL"):  # fmt: skip
        filled.fine("sql", f"SHOW {what}")
    assert json.loads(filled.fine("sql", "SHOW VIEWS LIKE 'na%'", "--format", "json")) == {
        "Name": "named"
    }


def test_messages_of_statements_stay_out_of_data(icestream: Terminal) -> None:
    text = icestream.fine("sql", SCRIPT + "SHOW SOURCES", "--format", "json")
    assert text == '{"Name": "events"}\n'
    assert "CREATE SOURCE events\nCREATE VIEW named\n" in icestream.err


def test_results_before_a_failure_are_printed(filled: Terminal) -> None:
    text = "SHOW SOURCES; CREATE VIEW v AS SELECT id FROM events; SHOW VIEWS; DESCRIBE nothing"
    assert filled.run("sql", text, "--format", "csv") == 1
    assert filled.out == "Name\nevents\nName\nnamed\nv\n"
    assert filled.err.startswith("CREATE VIEW v\nerror: ")


def test_a_creation_that_is_not_applied_is_not_told(icestream: Terminal) -> None:
    assert icestream.run("sql", SCRIPT + "CREATE VIEW broken AS SELECT nix FROM events") == 1
    assert "CREATE SOURCE events" not in icestream.out + icestream.err


def test_statements_from_standard_input(filled: Terminal, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SHOW SOURCES;"))
    assert filled.fine("sql", "-", "--format", "csv") == "Name\nevents\n"


def test_a_home_from_the_environment(icestream: Terminal, monkeypatch) -> None:
    monkeypatch.setenv("ICESTREAM_HOME", "elsewhere")
    icestream.fine("sql", SCRIPT)
    assert Path("elsewhere/icestream.db").exists()
    assert not Path(".icestream").exists()


def test_secrets_are_neither_shown_nor_stored(icestream: Terminal) -> None:
    icestream.fine("sql", "CREATE SECRET key AS 'hunter2'")
    assert "hunter2" not in icestream.fine("sql", "SHOW CREATE SECRET key")
    assert b"hunter2" not in Path(".icestream/icestream.db").read_bytes()
    assert os.stat(".icestream/secrets.json").st_mode & 0o077 == 0


# -- errors ------------------------------------------------------------------------------------------


def test_an_error_shows_file_line_column_and_caret(icestream: Terminal) -> None:
    Path("wrong.sql").write_text("SHOW SOURCES;\nCREATE SOURCE s (id INTEGR) WITH (x = 1);\n")
    assert icestream.run("plan", "wrong.sql") == 1
    assert icestream.err == (
        "error: wrong.sql:2:21: unknown type INTEGR\n"
        "  CREATE SOURCE s (id INTEGR) WITH (x = 1);\n"
        "                      ^\n"
        "  hint: did you mean 'integer'?\n"
    )


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("SELCT 1", "<sql>:1:1: no statement starts with SELCT"),
        ("SHOW CREATE SOURCE evnts", "did you mean 'events'?"),
        ("CREATE SOURCE t (a INT) WITH (connector = 'kafak')", "did you mean 'kafka'?"),
        (
            "CREATE SOURCE t (a INT) WITH (connector = 'datagen', rowz = 3)",
            "unknown option rowz of source t",
        ),
        ("CREATE SOURCE t (a INT) WITH (connector = '${NOT_SET_X}')", "NOT_SET_X is not set"),
        ("CREATE MATERIALIZED VIEW m AS SELECT now() FROM events", "not supported yet"),
        ("ALTER SOURCE events REFRESH SCHEMA", "not supported yet: ALTER … REFRESH SCHEMA"),
        ("SELECT nosuch(1) FROM events", "nosuch"),
    ],
)
def test_a_wrong_statement_is_exit_code_1(filled: Terminal, sql: str, complaint: str) -> None:
    assert filled.run("sql", f"EXPLAIN {sql}" if sql.startswith("SELECT") else sql) == 1
    assert filled.err.startswith("error: ")
    assert complaint in filled.err
    assert filled.fine("sql", "SHOW SOURCES", "--format", "csv") == "Name\nevents\n"


def test_a_script_with_an_error_creates_nothing(icestream: Terminal) -> None:
    assert icestream.run("sql", SCRIPT + "CREATE VIEW broken AS SELECT nix FROM events") == 1
    assert icestream.fine("sql", "SHOW SOURCES", "--format", "json") == ""


@pytest.mark.parametrize("command", ["plan", "run"])
def test_an_unknown_file(icestream: Terminal, command: str) -> None:
    assert icestream.run(command, "missing.sql") == 1
    assert icestream.err == "error: missing.sql cannot be read: No such file or directory\n"


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_file_that_is_no_text(icestream: Terminal, command: str) -> None:
    Path("image.sql").write_bytes(b"\x89PNG\xff")
    assert icestream.run(command, "image.sql") == 1
    assert icestream.err == "error: image.sql cannot be read: it is not UTF-8 text\n"


def test_a_failure_nobody_foresaw_is_one_line_and_a_log(icestream: Terminal, monkeypatch) -> None:
    def broken(home: Home) -> None:
        raise RuntimeError("the first line\nmore")

    monkeypatch.setattr(observe, "read", broken)
    assert icestream.run("status") == 1
    assert "error: RuntimeError: the first line\n" in icestream.err
    assert "Traceback" not in icestream.err
    assert "Traceback" in Path(".icestream/logs/icestream.log").read_text()


def test_a_home_of_a_newer_version(icestream: Terminal) -> None:
    import sqlite3

    icestream.fine("sql", SCRIPT)
    with sqlite3.connect(".icestream/icestream.db") as db:
        db.execute("PRAGMA user_version = 99")
    assert icestream.run("plan", "script.sql") == 1
    assert "was written by a newer icestream" in icestream.err


def test_an_object_that_cannot_be_built_can_be_shown_and_dropped(
    icestream: Terminal, monkeypatch
) -> None:
    monkeypatch.setenv("ROWS", "5")
    icestream.fine("sql", SCRIPT.replace("rows = 5", "rows = '${ROWS}'"))
    monkeypatch.delenv("ROWS")
    assert icestream.fine("sql", "SHOW SOURCES; SHOW VIEWS", "--format", "json") == (
        '{"Name": "events"}\n{"Name": "named"}\n'
    )
    assert "environment variable ROWS is not set" in icestream.err
    assert "${ROWS}" in icestream.fine("sql", "SHOW CREATE SOURCE events")
    for command in (
        ("run",),
        ("sql", "DESCRIBE events"),
        ("sql", "EXPLAIN SELECT * FROM named"),
        ("sql", "FLUSH"),
    ):
        assert icestream.run(*command) == 1
        assert "source events of this home can no longer be understood" in icestream.err
        assert "environment variable ROWS is not set" in icestream.err
    assert icestream.run("sql", "DROP SOURCE events") == 1
    assert "is needed by view named" in icestream.err
    icestream.fine("sql", "DROP SOURCE events CASCADE")
    assert icestream.fine("sql", "SHOW SOURCES; SHOW VIEWS", "--format", "json") == ""


# -- run and status ----------------------------------------------------------------------------------


def test_run_on_an_empty_home_says_what_to_do(icestream: Terminal) -> None:
    assert icestream.run("run") == 1
    assert "there is nothing to run: this home has no objects" in icestream.err
    assert "hint: icestream run FILE.sql" in icestream.err


def test_status_of_a_home_that_never_ran(icestream: Terminal) -> None:
    text = icestream.fine("status")
    assert "stopped, epoch 0" in text
    assert "nothing has run here yet: icestream run FILE.sql" in text
    assert json.loads(icestream.fine("status", "--format", "json"))["state"] == "stopped"
    assert not Path(".icestream").exists()


def write_status(**more: object) -> Home:
    home = Home.at(".icestream")
    home.prepare()
    sources = [observe.SourceStatus("events", 1_234_567, 3, 10)]
    objects = [observe.ObjectStatus("kept", "sink", 1_234_564, 7, "lake.out.kept")]
    observe.write(home, observe.Status("running", epoch=7, sources=sources, objects=objects))
    return home


def test_status_of_a_process_that_died(icestream: Terminal) -> None:
    write_status()
    text = icestream.fine("status")
    assert "stopped, epoch 7" in text
    assert "it ended without saying why; the next start recovers" in text
    assert "1,234,567" in text
    assert "lake.out.kept" in text


def test_status_of_a_running_process(icestream: Terminal) -> None:
    lock = HomeLock(write_status())
    try:
        status = json.loads(icestream.fine("status", "--format", "json"))
        assert (status["state"], status["pid"]) == ("running", os.getpid())
        assert status["sources"][0]["dead_letters"] == 3
        assert time.time() - status["updated"] < 60
        assert icestream.run("sql", SCRIPT) == 1
        assert "icestream is already running on" in icestream.err
        assert "--take-over" in icestream.err
    finally:
        lock.release()
