"""The Spark SQL of plans: quoted names, snapshots and deltas as inputs, the batch time, stored types."""

from __future__ import annotations

from icestream.plan.spark import render
from tests.unit.plan.tables import bind

INPUTS = {"orders#1": "lake.public.orders VERSION AS OF 7", "customers#2": "delta_1"}


def text(sql: str, now: str | None = None) -> str:
    return render(bind(sql), INPUTS, now)


def test_what_fits_into_one_select_is_one() -> None:
    assert text("SELECT id AS x, item FROM orders WHERE id > 1 AND item IS NULL") == (
        "SELECT `id` AS `x`, `item` FROM lake.public.orders VERSION AS OF 7 "
        "WHERE ((`id` > 1) AND (`item` IS NULL))"
    )


def test_equal_names_come_back_at_the_very_end() -> None:
    whole = text("SELECT o.id, c.id FROM orders o, customers c")
    assert whole.startswith("SELECT `id`, `id_2` AS `id` FROM")


def test_nulls_have_a_written_order() -> None:
    whole = text("SELECT id FROM orders ORDER BY id DESC, item NULLS FIRST LIMIT 3 OFFSET 1")
    assert "ORDER BY `id` DESC NULLS FIRST, `item` ASC NULLS FIRST LIMIT 3 OFFSET 1" in whole


def test_groups_are_named_by_position() -> None:
    assert text("SELECT item, count(*) FROM orders GROUP BY item").endswith("GROUP BY 1")


def test_a_type_that_iceberg_lacks_is_restored() -> None:
    assert text("SELECT level FROM customers") == (
        "SELECT CAST(`level` AS SMALLINT) AS `level` FROM delta_1"
    )


def test_now_is_the_batch_time() -> None:
    whole = text("SELECT id FROM orders WHERE at < now()", "TIMESTAMP '2024-01-01 00:00:00Z'")
    assert "2024-01-01 00:00:00Z" in whole
    assert "current_timestamp" not in whole


def test_not_in_is_written_as_spark_optimizes_it() -> None:
    whole = text("SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers)")
    same = "(try_cast(`customer` AS BIGINT) = `id_2`)"
    assert (
        f"LEFT ANTI JOIN (SELECT `id` AS `id_2` FROM delta_1) AS `q2` ON ({same} OR ({same} IS NULL))"
        in whole
    )


def test_a_select_without_from() -> None:
    assert text("SELECT 1 AS a") == "SELECT 1 AS `a`"
    assert text("SELECT 1 AS a WHERE FALSE") == "SELECT 1 AS `a` WHERE FALSE"
