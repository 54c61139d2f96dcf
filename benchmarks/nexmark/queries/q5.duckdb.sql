-- DuckDB has no HOP: each bid stands in the five windows that begin up to ten seconds before it.

WITH windows AS (
  SELECT auction, time_bucket(INTERVAL '2 seconds', "dateTime") - n * INTERVAL '2 seconds' AS starttime
  FROM bid, range(5) AS steps (n)
),
counted AS (
  SELECT auction, starttime, count(*) AS num FROM windows GROUP BY ALL
)
SELECT auction, num, starttime, starttime + INTERVAL '10 seconds' AS endtime
FROM counted
QUALIFY num = max(num) OVER (PARTITION BY starttime);
