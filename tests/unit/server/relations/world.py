"""A small database, twice: as PostgreSQL's DDL, and as the model that must look the same to clients."""

from __future__ import annotations

from icestream.server.relations.model import Column, Model, Object, Schema
from icestream.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    array,
    numeric,
)

ORDERS, VISITS, LINES, LARGE_ORDERS, TOTALS, ORDERS_CUSTOMER, STAGING, RAW = (
    16386, 16393, 16398, 16405, 16409, 16415, 16416, 16417,
)  # fmt: skip
"""The OIDs that PostgreSQL 15 gives them in a new cluster; queries of clients name them."""

ROOT = ("CREATE ROLE root SUPERUSER LOGIN", "CREATE DATABASE dev OWNER root")

DDL = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer varchar NOT NULL, amount numeric(10,2), tags varchar[],
    paid boolean, placed timestamptz, note jsonb);
CREATE TABLE visits (page varchar, at timestamp, seconds double precision, day date, n integer, small smallint,
    r real, raw bytea, t time, span interval, plain numeric);
CREATE TABLE lines ("order" bigint, line integer, "Item Name" varchar, PRIMARY KEY ("order", line));
CREATE VIEW large_orders AS SELECT id, customer, amount FROM orders WHERE amount > 100;
CREATE MATERIALIZED VIEW totals AS
    SELECT customer, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY customer;
CREATE INDEX orders_customer ON orders (customer);
COMMENT ON TABLE orders IS 'what was ordered';
COMMENT ON COLUMN orders.customer IS 'who ordered';
CREATE SCHEMA staging;
CREATE TABLE staging.raw (k integer PRIMARY KEY, v varchar);
"""

MODEL = Model(
    objects=(
        Object(
            ORDERS, "orders", "table", primary_key=("id",), comment="what was ordered", bytes=8192,
            columns=(
                Column("id", BIGINT, nullable=False),
                Column("customer", VARCHAR, nullable=False, comment="who ordered"),
                Column("amount", numeric(10, 2)), Column("tags", array(VARCHAR)),
                Column("paid", BOOLEAN), Column("placed", TIMESTAMPTZ), Column("note", JSONB),
            ),
        ),
        Object(
            VISITS, "visits", "table", bytes=8192,
            columns=(
                Column("page", VARCHAR), Column("at", TIMESTAMP), Column("seconds", DOUBLE),
                Column("day", DATE), Column("n", INTEGER), Column("small", SMALLINT), Column("r", REAL),
                Column("raw", BYTEA), Column("t", TIME), Column("span", INTERVAL), Column("plain", NUMERIC),
            ),
        ),
        Object(
            LINES, "lines", "table", primary_key=("order", "line"), bytes=8192,
            columns=(Column("order", BIGINT), Column("line", INTEGER), Column("Item Name", VARCHAR)),
        ),
        Object(
            LARGE_ORDERS, "large_orders", "view",
            columns=(Column("id", BIGINT), Column("customer", VARCHAR), Column("amount", numeric(10, 2))),
            query=" SELECT orders.id,\n    orders.customer,\n    orders.amount\n   FROM orders\n"
            "  WHERE orders.amount > 100::numeric;",
        ),
        Object(
            TOTALS, "totals", "materialized view", bytes=8192,
            columns=(Column("customer", VARCHAR), Column("orders", BIGINT), Column("amount", NUMERIC)),
            query=" SELECT orders.customer,\n    count(*) AS orders,\n    sum(orders.amount) AS amount\n"
            "   FROM orders\n  GROUP BY orders.customer;",
        ),
        Object(ORDERS_CUSTOMER, "orders_customer", "index", columns=(Column("customer", VARCHAR),), on=ORDERS),
        Object(
            RAW, "raw", "table", "staging", primary_key=("k",), bytes=8192,
            columns=(Column("k", INTEGER), Column("v", VARCHAR)),
        ),
    ),
    depends=((LARGE_ORDERS, ORDERS), (TOTALS, ORDERS)),
    schemas=(Schema(2200, "public"), Schema(STAGING, "staging")),
)  # fmt: skip
