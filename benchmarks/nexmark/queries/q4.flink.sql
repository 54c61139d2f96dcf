-- The average of integers is cut to an integer by Flink, hence the cast.

CREATE TABLE lake.bench.q4 (
  category BIGINT,
  final DOUBLE,
  PRIMARY KEY (category) NOT ENFORCED
) WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');

INSERT INTO lake.bench.q4
SELECT category, avg(CAST(final AS DOUBLE)) AS final
FROM (
  SELECT a.id, a.category, max(b.price) AS final
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction
  WHERE b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category;
