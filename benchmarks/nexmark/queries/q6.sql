-- Average price of a seller's last ten auctions before each, by the winning bids.
-- Of equal bids the earliest wins, as in query 9: the original leaves it open.

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

CREATE MATERIALIZED VIEW q6 AS
SELECT
  seller,
  id AS auction,
  avg(price) OVER (
    PARTITION BY seller ORDER BY "dateTime" ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
  ) AS avg_price
FROM (
  SELECT
    a.id, a.seller, b.price, b."dateTime",
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b."dateTime") AS rownum
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction
  WHERE b."dateTime" BETWEEN a."dateTime" AND a.expires
) AS ranked
WHERE rownum <= 1;
