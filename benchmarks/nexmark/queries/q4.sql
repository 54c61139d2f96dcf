-- Average closing price of a category: an aggregate over the aggregate of a join.

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

CREATE MATERIALIZED VIEW q4 AS
SELECT category, avg(final) AS final
FROM (
  SELECT a.id, a.category, max(b.price) AS final
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction
  WHERE b."dateTime" BETWEEN a."dateTime" AND a.expires
  GROUP BY a.id, a.category
) AS closed
GROUP BY category;
