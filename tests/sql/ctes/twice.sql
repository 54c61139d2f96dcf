-- A query of WITH that is read twice, and one above another.
CREATE TABLE ct_t (id INT PRIMARY KEY, k VARCHAR, n INT);
CREATE MATERIALIZED VIEW ct_best AS
  WITH totals AS (SELECT k, sum(n) AS n FROM ct_t GROUP BY k)
  SELECT k, n FROM totals WHERE n = (SELECT max(n) FROM totals);
CREATE MATERIALIZED VIEW ct_pairs AS
  WITH totals AS (SELECT k, sum(n) AS n FROM ct_t GROUP BY k), large AS (SELECT * FROM totals WHERE n > 2)
  SELECT a.k AS a, b.k AS b FROM large a JOIN large b ON a.n < b.n;

-- + ct_t: 1 | a | 1
-- + ct_t: 2 | b | 3
-- + ct_t: 3 | a | 4
-- + ct_t: 4 | c | 9
-- - ct_t: 4 | c | 9
-- ~ ct_t: 2 | b | 3 => 2 | b | 7

-- = ct_best: b | 7
-- = ct_pairs: a | b
