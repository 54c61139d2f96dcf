-- Selection: the bids for every 123rd auction.

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

CREATE MATERIALIZED VIEW q2 AS
SELECT auction, price
FROM bid
WHERE auction % 123 = 0;
