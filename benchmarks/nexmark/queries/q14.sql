-- Calculation: bids of certain prices, the time of day in words, and how many c are in a text.

CREATE SOURCE bid (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel VARCHAR,
  url VARCHAR,
  "dateTime" TIMESTAMP,
  extra VARCHAR
) WITH (
  connector = 'kafka',
  topic = 'nexmark-bid',
  properties.bootstrap.server = '${KAFKA}',
  scan.startup.mode = 'earliest'
) FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW q14 AS
SELECT
  auction,
  bidder,
  0.908 * price AS price,
  CASE
    WHEN extract(hour FROM "dateTime") BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN extract(hour FROM "dateTime") <= 6 OR extract(hour FROM "dateTime") >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS "bidTimeType",
  "dateTime",
  extra,
  length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
