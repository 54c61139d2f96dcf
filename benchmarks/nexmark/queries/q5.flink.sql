CREATE TABLE lake.bench.q5 (
  auction BIGINT,
  num BIGINT,
  starttime TIMESTAMP(3),
  endtime TIMESTAMP(3)
) WITH ('format-version' = '2');

INSERT INTO lake.bench.q5
SELECT bids.auction, bids.num, bids.starttime, bids.endtime
FROM (
  SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
) AS bids
JOIN (
  SELECT max(num) AS maxn, starttime, endtime
  FROM (
    SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
  )
  GROUP BY starttime, endtime
) AS most
ON bids.starttime = most.starttime AND bids.endtime = most.endtime AND bids.num >= most.maxn;
