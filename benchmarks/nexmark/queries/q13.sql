-- Bounded side input: bids with a text that a file has for their auction.

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

CREATE TABLE side_input (
  key BIGINT,
  value VARCHAR
) APPEND ONLY WITH (
  connector = 'file',
  path = '${SIDE_INPUT}',
  match_pattern = '*.csv'
) FORMAT PLAIN ENCODE CSV;

CREATE MATERIALIZED VIEW q13 AS
SELECT b.auction, b.bidder, b.price, b."dateTime", s.value
FROM bid AS b
JOIN side_input AS s ON b.auction % 10000 = s.key;
