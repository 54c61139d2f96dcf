-- Folders of the address.

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

CREATE MATERIALIZED VIEW q22 AS
SELECT
  auction,
  bidder,
  price,
  channel,
  split_part(url, '/', 4) AS dir1,
  split_part(url, '/', 5) AS dir2,
  split_part(url, '/', 6) AS dir3
FROM bid;
