"""A statement names only files that the operator has allowed, and never those of the home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icestream.cli import command_line, main
from icestream.cli.arguments import allowed_paths
from icestream.config import Home
from icestream.engine import Engine
from icestream.errors import IcestreamError, NotSupportedError, SqlError
from icestream.file_access import FileAccess, NamedFile, local_path

KAFKA = "connector = 'kafka', topic = 't', properties.bootstrap.server = 'localhost:1'"
REFUSED = "42501"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secrets.json").write_text('{"k": "canary"}')
    (tmp_path / "data").mkdir()
    return tmp_path / "home"


def refuse(home: Path, *statements: str, allow: tuple[str | Path, ...] = ()) -> SqlError:
    """The error of the last statement; the others only have to be understood."""
    with Engine(Home.at(home), env={}, allow_paths=allow) as engine:
        for text in statements[:-1]:
            engine.plan(text)
        with pytest.raises(SqlError) as refused:
            engine.plan(statements[-1])
    return refused.value


def allow(home: Path, text: str, *paths: str | Path) -> None:
    with Engine(Home.at(home), env={}, allow_paths=paths) as engine:
        assert engine.plan(text)


def file_source(path: str | Path, pattern: str = "*.json") -> str:
    return (
        f"CREATE TABLE stolen (k VARCHAR) WITH (connector = 'file', path = '{path}', "
        f"match_pattern = '{pattern}') FORMAT PLAIN ENCODE JSON"
    )


def named(root: Path) -> dict[str, str]:
    """A statement for every way to name a file below a directory."""
    kafka_tls = {
        name: f"CREATE SOURCE s (a INT) WITH ({KAFKA}, properties.ssl.{name}.location = '{root}/f') "
        "FORMAT PLAIN ENCODE JSON"
        for name in ("ca", "certificate", "key")
    }
    catalog = "connector = 'iceberg', table.name = 't', catalog.name = 'c'"
    connect = (
        "connector.class = 'org.apache.iceberg.connect.IcebergSinkConnector', topics = 't', "
        "bootstrap.servers = 'localhost:1', iceberg.tables = 'db.t', "
    )
    return {
        "file": file_source(root),
        "posix_fs": f"CREATE SOURCE s (a INT) WITH (connector = 'posix_fs', posix_fs.root = '{root}') "
        "FORMAT PLAIN ENCODE JSON",
        "spark": f"CREATE SOURCE s (a INT) WITH (connector = 'spark', format = 'json', option.path = '{root}')",
        "spark uri": "CREATE SOURCE s (a INT) WITH (connector = 'spark', format = 'json', "
        f"option.PATH = 'file://{root}/*')",
        "storage": f"CREATE SOURCE s (a INT) WITH ({catalog}, catalog.type = 'storage', "
        f"warehouse.path = '{root}')",
        "file: warehouse": f"CREATE SOURCE s (a INT) WITH ({catalog}, warehouse.path = 'file:{root}')",
        "sqlite": f"CREATE SOURCE s (a INT) WITH ({catalog}, catalog.type = 'jdbc', "
        f"catalog.uri = 'jdbc:sqlite:{root}/c.db', warehouse.path = 's3://bucket/x')",
        "connection": "CREATE CONNECTION c WITH (type = 'iceberg', catalog.type = 'storage', "
        f"warehouse.path = '{root}')",
        "connect warehouse": f"CREATE CONNECTOR c WITH ({connect} iceberg.catalog.type = 'hadoop', "
        f"iceberg.catalog.warehouse = '{root}')",
        "connect sqlite": f"CREATE CONNECTOR c WITH ({connect} iceberg.catalog.type = 'jdbc', "
        f"iceberg.catalog.uri = 'jdbc:sqlite:{root}/c.db', iceberg.catalog.warehouse = 's3://b/x')",
        "connect property": f"CREATE CONNECTOR c WITH ({connect} "
        f"iceberg.tables.auto-create-props.write.data.path = '{root}')",
        **kafka_tls,
    }


WAYS = tuple(named(Path("/x")))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_allowed_unless_it_is_said(home: Path, way: str) -> None:
    data = home.parent / "data"
    statement = named(data)[way]
    error = refuse(home, statement)
    assert error.code == REFUSED
    assert "--allow-path" in (error.remedy or "")
    allow(home, statement, data)
    assert refuse(home, statement, allow=(data / "below",)).code == REFUSED


@pytest.mark.parametrize("way", WAYS)
def test_the_home_is_never_allowed(home: Path, way: str) -> None:
    for path in (home, home / "lake" / "warehouse"):
        error = refuse(home, named(path)[way], allow=("/",))
        assert error.code == REFUSED
        assert "home" in error.message


@pytest.mark.parametrize(
    "path", ["data/../home", "data/../../../../../../etc", "data/link", "data/link/passwd", "other"]
)
def test_what_counts_is_where_a_path_leads(home: Path, path: str) -> None:
    root = home.parent
    os.symlink("/etc", root / "data" / "link")
    assert refuse(home, file_source(root / path), allow=(root / "data",)).code == REFUSED


def test_a_directory_may_be_allowed_through_a_link(home: Path) -> None:
    root = home.parent
    os.symlink(root / "data", root / "link")
    allow(home, file_source(root / "data"), root / "link")
    allow(home, file_source(root / "link" / "below"), root / "data")


@pytest.mark.parametrize("pattern", ["../*.json", "a/../../x/*", ".."])
def test_patterns_stay_below_the_directory(home: Path, pattern: str) -> None:
    data = home.parent / "data"
    assert "match_pattern" in refuse(home, file_source(data, pattern), allow=(data,)).message


@pytest.mark.parametrize(
    "pattern",
    [
        "*/../../home",
        "{a,../../home}/*",
        "{a,../home}/secrets.json",
        "{../home,a}/secrets.json",
        "{a,..}/home/secrets.json",
        "{a,{b,../home}}/*",
        "[a-z]/../../x",
        "\\.\\./home/secrets.json",
        ".\\./home/secrets.json",
        "\\../home/secrets.json",
        "a\\/..\\/../home",
        "*\\",
    ],
)
def test_spark_patterns_stay_below_the_directory(home: Path, pattern: str) -> None:
    data = home.parent / "data"
    text = (
        "CREATE SOURCE s (a INT) WITH (connector = 'spark', format = 'text', "
        f"option.path = '{data}/{pattern}')"
    )
    assert refuse(home, text, allow=(data,)).code == REFUSED


@pytest.mark.parametrize(
    "path",
    [
        "//host/data", "file://host/data", "file:////host/data",
        "http://host/x", "https://host/x", "ftp://host/x", "har:///x.har", "har://file-localhost/x.har",
        "jar:file:/x!/y", "viewfs://c/x", "webhdfs://host/x", "file:data", "data", " /etc", "/data,/etc",
        "/data/%2e%2e/home", "file:/data/%2e%2e/home",
    ],
)  # fmt: skip
def test_spark_paths_are_absolute_and_of_known_schemes(home: Path, path: str) -> None:
    text = (
        "CREATE SOURCE s (a INT) WITH (connector = 'spark', format = 'text', "
        f"option.path = '{path}')"
    )
    refuse(home, text, allow=(home.parent / "data",))


def test_a_path_is_checked_as_hadoop_reads_it(home: Path) -> None:
    """Hadoop removes `..` from the text of a path, the operating system follows a link first."""
    data = home.parent / "data"
    (data / "deep" / "er").mkdir(parents=True)
    os.symlink(data / "deep" / "er", data / "link")
    for way, text in named(data / "link" / ".." / ".." / "home").items():
        assert refuse(home, text, allow=(data,)).code == REFUSED, way


def test_spark_may_not_list_a_directory_with_the_home_in_it(home: Path) -> None:
    root = home.parent
    text = f"CREATE SOURCE s (a INT) WITH (connector = 'spark', format = 'text', option.path = '{root}')"
    assert refuse(home, text, allow=(root,)).code == REFUSED
    allow(home, file_source(root), root)  # the file source leaves out what lies in the home


@pytest.mark.parametrize(
    "options",
    [
        "format = 'csv', option.path = '{data}', option.cleanSource = 'archive'",
        "format = 'csv', option.path = '{data}', option.sourceArchiveDir = '/tmp'",
        "format = 'xml', option.path = '{data}', option.rowValidationXSDPath = '/etc/passwd'",
        "format = 'kafka', option.subscribe = 't'",
        "format = 'rate', option.path = '/etc'",
        "format = 'org.apache.spark.sql.Evil'",
        "format = 'binaryFile', option.path = '{data}'",
        "format = 'text', option.path = 'http://host/x'",
        "format = 'socket', option.host = 'localhost', option.port = '22'",
        "format = 'text', option.path = '{data}', option.Path = '{data}'",
        "format = 'text'",
    ],
)
def test_spark_formats_take_listed_options(home: Path, options: str) -> None:
    data = home.parent / "data"
    text = f"CREATE SOURCE s (a INT) WITH (connector = 'spark', {options.format(data=data)})"
    refuse(home, text, allow=("/",))


@pytest.mark.parametrize(
    "uri",
    [
        "jdbc:sqlite::resource:http://host/x.db",
        "jdbc:sqlite:file:/tmp/x.db",
        "jdbc:sqlite::memory:",
        "jdbc:sqlite:relative.db",
        "jdbc:sqlite:/tmp/x.db?enable_load_extension=true",
        "jdbc:sqlite:/tmp/x.db?journal_mode=WAL;x=1",
        "jdbc:sqlite:/tmp/x.db?journal_mode=off",
        "jdbc:sqlite:/tmp/x.db?busy_timeout=1;enable_load_extension=true",
        "jdbc:sqlite:/tmp/x.db?journal_mode",
    ],
)
def test_sqlite_catalogs_are_plain_paths(home: Path, uri: str) -> None:
    text = (
        "CREATE SOURCE s (a INT) WITH (connector = 'iceberg', table.name = 't', catalog.name = 'c', "
        f"catalog.type = 'jdbc', catalog.uri = '{uri}', warehouse.path = 's3://b/x')"
    )
    assert "SQLite" in refuse(home, text, allow=("/",)).message


@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "/etc/passwd", "ftp://h/x", "http:", "http:///x"]
)
def test_rest_catalogs_are_on_the_web(home: Path, uri: str) -> None:
    source = (
        "CREATE SOURCE s (a INT) WITH (connector = 'iceberg', table.name = 't', "
        f"catalog.type = 'rest', catalog.uri = '{uri}')"
    )
    connector = (
        "CREATE CONNECTOR c WITH (connector.class = 'org.apache.iceberg.connect.IcebergSinkConnector', "
        "topics = 't', bootstrap.servers = 'b:1', iceberg.tables = 'db.t', iceberg.catalog.type = 'rest', "
        f"iceberg.catalog.uri = '{uri}')"
    )
    for text in (source, connector):
        assert "http:// or https://" in refuse(home, text, allow=("/",)).message


@pytest.mark.parametrize("warehouse", ["http://host/x", "jar:file:/x!/y", "ftp:/x", "gs://b/x"])
def test_warehouses_have_known_schemes(home: Path, warehouse: str) -> None:
    text = (
        "CREATE SOURCE s (a INT) WITH (connector = 'iceberg', table.name = 't', "
        f"catalog.type = 'storage', warehouse.path = '{warehouse}')"
    )
    assert isinstance(refuse(home, text, allow=("/",)), NotSupportedError)


@pytest.mark.parametrize("name", ["../x", "..", "a/b", "a\\b"])
def test_names_of_foreign_tables_are_no_paths(home: Path, name: str) -> None:
    data = home.parent / "data"
    catalog = f"catalog.type = 'storage', warehouse.path = '{data}'"
    for options in (f"table.name = '{name}'", f"table.name = 't', database.name = '{name}'"):
        text = f"CREATE SOURCE s (a INT) WITH (connector = 'iceberg', {catalog}, {options})"
        assert "table's name" in refuse(home, text, allow=(data,)).message


def iceberg_tables(warehouse: Path, namespace: str, table: str = "x") -> dict[str, str]:
    """Statements that write a table in a catalog that makes folders of names."""
    sink = (
        "CREATE TABLE t (a INT); CREATE SINK s FROM t WITH (connector = 'iceberg', type = 'append-only', "
        f"force_append_only = 'true', database.name = '{namespace}', table.name = '{table}', "
        "create_table_if_not_exists = 'true', "
    )
    connect = (
        "CREATE CONNECTOR c WITH (connector.class = 'org.apache.iceberg.connect.IcebergSinkConnector', "
        f"topics = 't', bootstrap.servers = 'localhost:1', iceberg.tables = '{namespace}.{table}', "
        f"iceberg.catalog.warehouse = '{warehouse}', "
    )
    jdbc = warehouse.parent / "data" / "c.db"
    return {
        "storage": f"{sink} catalog.type = 'storage', warehouse.path = '{warehouse}')",
        "jdbc": f"{sink} catalog.type = 'jdbc', catalog.name = 'c', catalog.uri = 'jdbc:sqlite:{jdbc}', "
        f"warehouse.path = 'file:{warehouse}')",
        "connector": f"{connect} iceberg.catalog.type = 'hadoop')",
    }


WRITERS = tuple(iceberg_tables(Path("/x"), "db"))


@pytest.mark.parametrize("way", WRITERS)
def test_tables_of_a_warehouse_stay_out_of_the_home(home: Path, way: str) -> None:
    root = home.parent
    for namespace, table in (("home.dml", "x"), ("home", "x"), ("a", "x")):
        text = iceberg_tables(root, namespace, table)[way]
        assert refuse(home, text, allow=(root,)).code == REFUSED  # the home is in the warehouse
    data = root / "data"
    allow(home, iceberg_tables(data, "db")[way], root)
    (data / "db" / "y").mkdir(parents=True)
    os.symlink(home, data / "link")
    os.symlink("/etc", data / "out")
    os.symlink(home / "dml", data / "db" / "y" / "metadata")
    for namespace, table in (("link", "x"), ("link.dml", "x"), ("out", "x"), ("db", "y")):
        text = iceberg_tables(data, namespace, table)[way]
        assert refuse(home, text, allow=(data,)).code == REFUSED, (namespace, table)


def test_objects_of_a_home_are_checked_when_it_runs(home: Path) -> None:
    data = home.parent / "data"
    with Engine(Home.at(home), env={}, allow_paths=[data]) as engine:
        change = engine.plan(file_source(data))[0]
        engine.resources.own()
        engine.catalog.keep([change.object.name])
    with Engine(Home.at(home), env={}) as engine:
        assert engine.execute("SHOW TABLES")[0].rows == [("stolen",)]
        with pytest.raises(IcestreamError) as refused:
            engine.open()
        assert refused.value.code == REFUSED
        assert "--allow-path" in str(refused.value)


def test_locations() -> None:
    assert local_path("/a/b") == "/a/b"
    assert (
        local_path("file:/a") == local_path("file:///a") == local_path("FILE://localhost/a") == "/a"
    )
    assert local_path("s3://bucket/a") is None
    assert local_path("relative/a") == "relative/a"


def test_odd_paths_are_refused(tmp_path: Path) -> None:
    access = FileAccess.of(tmp_path / "home", [tmp_path])
    assert not access.can_use("a\0b")
    with pytest.raises(SqlError):
        access.check(NamedFile("path", f"{tmp_path}/a\0b"), "source s")
    assert access.can_use(tmp_path / "homely")
    assert not access.can_use(tmp_path / "home")


def test_links_below_a_directory_are_followed(home: Path) -> None:
    data = home.parent / "data"
    other = home.parent / "other"
    (data / "a" / "b").mkdir(parents=True)
    (data / "a" / "f.json").write_text("{}")
    other.mkdir()
    os.symlink(data, data / "a" / "loop")
    os.symlink(other, data / "a" / "b" / "other")
    access = FileAccess.of(home, [data, other])
    assert access.find_forbidden(str(data)) is None
    assert access.find_forbidden(str(data / "nothing")) is None
    assert access.find_forbidden("/etc/passwd") == "/etc/passwd"
    for target in (home, home / "secrets.json", Path("/etc"), Path("/etc/passwd"), home.parent):
        link = other / "link"
        os.symlink(target, link)
        assert access.find_forbidden(str(data)) == str(data / "a" / "b" / "other" / "link")
        link.unlink()


def test_defaults_of_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = command_line()
    assert allowed_paths(parser.parse_args(["serve"])) == []
    for command in (["run"], ["sql", "x"], ["plan", "x"]):
        assert allowed_paths(parser.parse_args(command)) == ["."]
    given = ["serve", "--allow-path", str(tmp_path), "--allow-path", "/"]
    assert allowed_paths(parser.parse_args(given)) == [str(tmp_path), "/"]


def test_plan_checks_files_like_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = home.parent / "data"
    script = data / "p.sql"
    script.write_text(file_source(data))
    monkeypatch.chdir(home.parent)
    assert main(["plan", "--home", str(home), str(script)]) == 0
    assert main(["plan", "--home", str(home), "--allow-path", str(home), str(script)]) == 1
    assert "--allow-path" in capsys.readouterr().err
    assert main(["plan", "--home", str(home), "--allow-path", "/nowhere", str(script)]) == 1
    assert "there is no such directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["../../../x", "a/b", "a\\\\b", "a#1", "a\nb", "x" * 201, "é" * 101]
)
def test_names_of_objects_are_no_paths(home: Path, name: str) -> None:
    error = refuse(home, f'CREATE TABLE "{name}" (a INT)')
    assert error.code == "42602"
    with Engine(Home.at(home), env={}) as engine:
        engine.plan("CREATE TABLE t (a INT)")
        with pytest.raises(SqlError, match="cannot be the name"):
            engine.execute(f'ALTER TABLE t RENAME TO "{name}"')
    allow(home, 'CREATE TABLE "a.b c$é" (a INT)')
