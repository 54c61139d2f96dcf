-- Highest bid of every ten seconds.

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

CREATE MATERIALIZED VIEW q7 AS
SELECT b.auction, b.price, b.bidder, b."dateTime", b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS maxprice, window_end AS endtime
  FROM TUMBLE(bid, "dateTime", INTERVAL '10' SECOND)
  GROUP BY window_start, window_end
) AS highest
ON b.price = highest.maxprice
WHERE b."dateTime" BETWEEN highest.endtime - INTERVAL '10' SECOND AND highest.endtime;
