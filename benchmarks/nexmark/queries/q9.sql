-- Winning bids: the highest bid of each auction, the earliest of equal ones.

CREATE SOURCE auction (
  id BIGINT,
  "itemName" VARCHAR,
  description VARCHAR,
  "initialBid" BIGINT,
  reserve BIGINT,
  "dateTime" TIMESTAMP,
  expires TIMESTAMP,
  seller BIGINT,
  category BIGINT,
  extra VARCHAR
) WITH (
  connector = 'kafka',
  topic = 'nexmark-auction',
  properties.bootstrap.server = '${KAFKA}',
  scan.startup.mode = 'earliest'
) FORMAT PLAIN ENCODE JSON;

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

CREATE MATERIALIZED VIEW q9 AS
SELECT
  id, "itemName", description, "initialBid", reserve, "dateTime", expires, seller, category, extra,
  auction, bidder, price, "bid_dateTime", bid_extra
FROM (
  SELECT
    a.*, b.auction, b.bidder, b.price, b."dateTime" AS "bid_dateTime", b.extra AS bid_extra,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b."dateTime") AS rownum
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction
  WHERE b."dateTime" BETWEEN a."dateTime" AND a.expires
) AS ranked
WHERE rownum <= 1;
