-- A session begins where the bid before is ten seconds away or more.

WITH flagged AS (
  SELECT
    bidder, "dateTime",
    coalesce("dateTime" - lag("dateTime") OVER past >= INTERVAL '10 seconds', true)::INT AS begins
  FROM bid
  WINDOW past AS (PARTITION BY bidder ORDER BY "dateTime")
),
numbered AS (
  SELECT bidder, "dateTime", sum(begins) OVER (PARTITION BY bidder ORDER BY "dateTime") AS session
  FROM flagged
)
SELECT
  bidder, count(*) AS bid_count, min("dateTime") AS starttime,
  max("dateTime") + INTERVAL '10 seconds' AS endtime
FROM numbered
GROUP BY bidder, session;
