-- The earliest among the highest, by two aggregates instead of a rank. No two bids have the same time.

WITH valid AS (
  SELECT b.*
  FROM bid AS b
  JOIN auction AS a ON a.id = b.auction
  WHERE b."dateTime" >= a."dateTime" AND b."dateTime" <= a.expires
),
best AS (
  SELECT auction, max(price) AS price FROM valid GROUP BY auction
),
first AS (
  SELECT v.auction, min(v."dateTime") AS at
  FROM valid AS v
  JOIN best ON best.auction = v.auction AND best.price = v.price
  GROUP BY v.auction
)
SELECT a.*, b.auction, b.bidder, b.price, b."dateTime" AS "bid_dateTime", b.extra AS bid_extra
FROM first
JOIN bid AS b ON b.auction = first.auction AND b."dateTime" = first.at
JOIN auction AS a ON a.id = b.auction;
