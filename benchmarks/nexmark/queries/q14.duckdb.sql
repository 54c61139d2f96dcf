SELECT
  auction, bidder, 0.908 * price AS price,
  CASE
    WHEN hour("dateTime") IN (7, 19) THEN 'otherTime'
    WHEN hour("dateTime") BETWEEN 8 AND 18 THEN 'dayTime'
    ELSE 'nightTime'
  END AS "bidTimeType",
  "dateTime", extra,
  len(string_split(extra, 'c')) - 1 AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
