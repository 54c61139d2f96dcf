-- Bids beside their auctions of category 10: a join with a filter.

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

CREATE MATERIALIZED VIEW q20 AS
SELECT
  b.auction, b.bidder, b.price, b.channel, b.url, b."dateTime" AS "bid_dateTime", b.extra AS bid_extra,
  a."itemName", a.description, a."initialBid", a.reserve, a."dateTime" AS "auction_dateTime", a.expires,
  a.seller, a.category, a.extra AS auction_extra
FROM bid AS b
JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10;
