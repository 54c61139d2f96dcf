-- A bid at the very end of a window may equal the highest one of the window before it.

WITH highest AS (
  SELECT max(price) AS maxprice, time_bucket(INTERVAL '10 seconds', "dateTime") AS starttime
  FROM bid
  GROUP BY starttime
)
SELECT auction, price, bidder, "dateTime", extra
FROM bid
JOIN highest ON price = maxprice
WHERE "dateTime" >= starttime AND "dateTime" <= starttime + INTERVAL '10 seconds';
