-- Views over views over views, and two of them joined again: all of one epoch.
CREATE TABLE vv_t (id INT PRIMARY KEY, k VARCHAR, n INT);
CREATE MATERIALIZED VIEW vv_sums AS SELECT k, sum(n) AS n, count(*) AS rows FROM vv_t GROUP BY k;
CREATE MATERIALIZED VIEW vv_large AS SELECT k, n FROM vv_sums WHERE n > 3;
CREATE MATERIALIZED VIEW vv_top AS SELECT count(*) AS large, max(n) AS most FROM vv_large;
CREATE MATERIALIZED VIEW vv_shares AS SELECT t.id, t.n, s.n AS total FROM vv_t t JOIN vv_sums s ON t.k = s.k;
CREATE MATERIALIZED VIEW vv_check AS SELECT s.k, s.n - coalesce(d.n, 0) AS gap FROM vv_sums s LEFT JOIN (SELECT t.k, sum(t.n) AS n FROM vv_t t GROUP BY t.k) d ON s.k = d.k WHERE s.n <> d.n;

-- + vv_t: 1 | a | 2
-- + vv_t: 2 | a | 2
-- + vv_t: 3 | b | 5
-- + vv_t: 4 | c | 1
-- - vv_t: 2 | a | 2
-- ~ vv_t: 4 | c | 1 => 4 | b | 1

-- = vv_sums: a | 2 | 1
-- = vv_sums: b | 6 | 2
-- = vv_large: b | 6
-- = vv_top: 1 | 6
-- = vv_shares: 1 | 2 | 2
-- = vv_shares: 3 | 5 | 6
-- = vv_shares: 4 | 1 | 6
