-- Hot items: the auctions with the most bids of the last ten seconds, every two seconds.

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

CREATE MATERIALIZED VIEW q5 AS
SELECT bids.auction, bids.num, bids.starttime, bids.endtime
FROM (
  SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
  FROM HOP(bid, "dateTime", INTERVAL '2' SECOND, INTERVAL '10' SECOND)
  GROUP BY auction, window_start, window_end
) AS bids
JOIN (
  SELECT max(num) AS maxn, starttime, endtime
  FROM (
    SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
    FROM HOP(bid, "dateTime", INTERVAL '2' SECOND, INTERVAL '10' SECOND)
    GROUP BY auction, window_start, window_end
  ) AS counted
  GROUP BY starttime, endtime
) AS most
ON bids.starttime = most.starttime AND bids.endtime = most.endtime AND bids.num >= most.maxn;
