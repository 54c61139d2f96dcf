-- Pass through: what reading and writing cost.

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

CREATE MATERIALIZED VIEW q0 AS
SELECT auction, bidder, price, "dateTime", extra
FROM bid;
