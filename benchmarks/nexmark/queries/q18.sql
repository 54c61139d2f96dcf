-- The last bid of a user for an auction: deduplication.

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

CREATE MATERIALIZED VIEW q18 AS
SELECT auction, bidder, price, channel, url, "dateTime", extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY "dateTime" DESC) AS rank_number
  FROM bid
) AS ranked
WHERE rank_number <= 1;
