CREATE TABLE lake.bench.q3 (
  name STRING,
  city STRING,
  state STRING,
  id BIGINT
) WITH ('format-version' = '2');

INSERT INTO lake.bench.q3
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');
