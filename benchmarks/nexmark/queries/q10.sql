-- Log to files: every bid with its day and minute. The files are those of the view's table.

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

CREATE MATERIALIZED VIEW q10 AS
SELECT
  auction, bidder, price, "dateTime", extra,
  to_char("dateTime", 'YYYY-MM-DD') AS dt,
  to_char("dateTime", 'HH24:MI') AS hm
FROM bid;
