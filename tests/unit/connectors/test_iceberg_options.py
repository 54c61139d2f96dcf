"""Iceberg catalogs by their options, and the Iceberg sink's partitioning, order and refusals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from icestream import types as t
from icestream.connectors.iceberg_options import (
    CATALOG_OPTIONS,
    CONNECTION_OPTIONS,
    catalog_properties,
    needs_aws,
)
from icestream.connectors.iceberg_sink import OPTIONS, check, order_clause, partition_clause
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.sql.options import OptionSpec, Settings
from icestream.sql.options import check as checked
from icestream.sql.statements import Option

PLACE = Place("f.sql", 1, 1)


def settings(specs: Sequence[OptionSpec], **values: str) -> Settings:
    named = {k.replace("__", "."): v for k, v in values.items()}
    options = {k: Option(k, v, PLACE, PLACE) for k, v in named.items()}
    return checked(options, specs, what="sink k", env={})


def catalog(**values: str) -> Settings:
    return settings(CATALOG_OPTIONS, **values)


def test_no_catalog_is_the_embedded_lake() -> None:
    assert catalog_properties(catalog()) == {}
    assert not needs_aws(catalog())


def test_the_seeds_connection() -> None:
    given = settings(
        CONNECTION_OPTIONS,
        type="iceberg",
        warehouse__path="s3://my-data-lake/warehouse",
        catalog__type="glue",
        catalog__name="my_catalog",
        s3__region="us-east-1",
        s3__access__key="AK",
        s3__secret__key="geheim",
    )
    assert catalog_properties(given) == {
        "type": "glue",
        "warehouse": "s3://my-data-lake/warehouse",
        "client.region": "us-east-1",
        "s3.access-key-id": "AK",
        "s3.secret-access-key": "geheim",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    assert needs_aws(given)
    assert "geheim" not in repr(given)


def test_rest() -> None:
    given = catalog(
        catalog__type="rest",
        catalog__uri="https://c/api",
        catalog__credential="id:geheim",
        catalog__scope="all",
        warehouse__path="wh",
    )
    assert catalog_properties(given) == {
        "type": "rest",
        "uri": "https://c/api",
        "credential": "id:geheim",
        "scope": "all",
        "warehouse": "wh",
    }
    assert not needs_aws(given)
    on_s3 = catalog(catalog__type="rest", catalog__uri="http://u", s3__path__style__access="true")
    assert needs_aws(on_s3)
    assert catalog_properties(on_s3)["s3.path-style-access"] == "true"


def test_storage_and_jdbc() -> None:
    assert catalog_properties(catalog(warehouse__path="/data/w")) == {
        "type": "hadoop",
        "warehouse": "/data/w",
    }
    jdbc = catalog(
        catalog__type="jdbc",
        catalog__name="prod",
        catalog__uri="jdbc:sqlite:/c.db",
        warehouse__path="/w",
        catalog__jdbc__user="u",
    )
    assert catalog_properties(jdbc) == {
        "type": "jdbc",
        "uri": "jdbc:sqlite:/c.db",
        "jdbc.user": "u",
        "jdbc.schema-version": "V1",
        "warehouse": "/w",
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"catalog__uri": "http://c"}, "catalog.uri needs catalog.type"),
        ({"s3__region": "r"}, "s3.region needs catalog.type"),
        ({"catalog__type": "rest"}, "needs the option catalog.uri"),
        ({"catalog__type": "glue"}, "needs the option warehouse.path"),
        ({"catalog__type": "glue", "warehouse__path": "s3://b", "catalog__uri": "u"}, "no meaning"),
        ({"catalog__type": "glue", "warehouse__path": "s3://b", "s3__access__key": "k"}, "both or"),
        ({"warehouse__path": "s3://b/w"}, "not supported yet: catalog.type = 'storage' on S3"),
        ({"warehouse__path": "gs://b/w"}, "not supported yet: a warehouse on gs://"),
        (
            {
                "catalog__type": "jdbc",
                "catalog__name": "n",
                "catalog__uri": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://x'",
                "warehouse__path": "/w",
            },
            "not supported yet: a JDBC catalog other than SQLite",
        ),
        (
            {
                "catalog__type": "jdbc",
                "catalog__name": "lake",
                "catalog__uri": "jdbc:sqlite:x",
                "warehouse__path": "/w",
            },
            "cannot be called 'lake'",
        ),
    ],
)
def test_catalogs_that_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(SqlError, match=message):
        catalog_properties(catalog(**values))


# -- the sink ----------------------------------------------------------------------------------------


def sink(**values: str) -> Settings:
    return settings(OPTIONS, **{"table__name": "t", "type": "append-only", **values})


def test_defaults() -> None:
    given = sink()
    check(given)
    assert given.integer("format_version") == 3
    assert given.integer("commit_checkpoint_interval") == 60
    assert not given.boolean("create_table_if_not_exists")


@pytest.mark.parametrize(
    "values",
    [
        {"is_exactly_once": "true"},
        {"is_exactly_once": "false"},
        {"force_append_only": "true"},
        {"enable_compaction": "false", "compaction_interval_sec": "3600"},
        {"enable_snapshot_expiration": "false"},
        {"snapshot": "true", "write_mode": "merge-on-read", "commit_retry_num": "8"},
        {"create_table_if_not_exists": "true", "partition_by": "a", "format_version": "2"},
    ],
)
def test_accepted(values: dict[str, str]) -> None:
    check(sink(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"type": "upsert", "force_append_only": "true"},
            "force_append_only has no meaning for type = 'upsert'",
        ),
        ({"type": "upsert", "write_mode": "copy-on-write"}, "not supported yet: write_mode"),
        ({"enable_compaction": "true"}, "not supported yet: enable_compaction = 'true'"),
        ({"compaction_interval_sec": "60"}, "not supported yet: compaction_interval_sec = '60'"),
        ({"enable_snapshot_expiration": "true"}, "not supported yet"),
        ({"snapshot": "false"}, "not supported yet: snapshot = 'false'"),
        ({"write_mode": "copy-on-write"}, "not supported yet"),
        ({"auto__schema__change": "true"}, "not supported yet"),
        ({"commit_retry_num": "3"}, "not supported yet"),
        ({"primary_key": "id"}, "no meaning for type = 'append-only'"),
        ({"partition_by": "a"}, "is for a table that the sink creates"),
    ],
)
def test_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        check(sink(**values))
    assert caught.value.place == PLACE


COLUMNS: dict[str, t.Type] = {
    "id": t.BIGINT,
    "ts": t.TIMESTAMPTZ,
    "day": t.DATE,
    "Name": t.VARCHAR,
    "amount": t.numeric(10, 2),
    "score": t.DOUBLE,
    "tags": t.array(t.VARCHAR),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", "`id`"),
        ("day(ts),bucket(16,id),truncate(4,name),id", "days(`ts`), bucket(16, `id`), truncate(4, `Name`), `id`"),
        (" Bucket ( 16 , ID ) ", "bucket(16, `id`)"),
        ("year(day), months(ts), hour(ts)", "years(`day`), months(`ts`), hours(`ts`)"),
        ('truncate(10, amount), "Name"', "truncate(10, `amount`), `Name`"),
        ("day, day(ts)", "`day`, days(`ts`)"),
    ],
)  # fmt: skip
def test_partition_clause(text: str, expected: str) -> None:
    assert partition_clause(text, COLUMNS) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dya(ts)", "did you mean 'day'"),
        ("day(tss)", "did you mean 'ts'"),
        ('"name"', "no column 'name'"),
        ("bucket(id, 16)", r"should be bucket\(16, column\)"),
        ("bucket(0, id)", r"should be bucket\(16, column\)"),
        ("day(ts, id)", r"should be day\(column\)"),
        ("hour(day)", "hour does not take day, which is date"),
        ("truncate(2, score)", "does not take score"),
        ("tags", "cannot partition"),
        ("id,", "empty part"),
        ("id, ID", "twice"),
        ("", "empty part"),
    ],
)
def test_partition_clause_refuses(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        partition_clause(text, COLUMNS, PLACE)


def test_void_is_for_later() -> None:
    with pytest.raises(NotSupportedError):
        partition_clause("void(id)", COLUMNS)


def test_order_clause() -> None:
    assert order_clause("id", COLUMNS) == "`id` ASC NULLS LAST"
    assert order_clause("id, NAME desc", COLUMNS) == "`id` ASC NULLS LAST, `Name` DESC NULLS FIRST"
    assert order_clause("ts desc nulls last", COLUMNS) == "`ts` DESC NULLS LAST"
    for wrong in ("", "id up", "id,", "id nulls"):
        with pytest.raises(SqlError, match="should be a column"):
            order_clause(wrong, COLUMNS)
    with pytest.raises(SqlError, match="did you mean 'amount'"):
        order_clause("amout", COLUMNS)
