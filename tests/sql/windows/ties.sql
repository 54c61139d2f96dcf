-- Equal rows in the order of a window: what a call gave for them is taken back as it was given.
CREATE TABLE wt_row (g INT, i INT, v INT);
CREATE MATERIALIZED VIEW wt_total AS SELECT g, count(w) AS c FROM (SELECT g, first_value(v) OVER (PARTITION BY g) AS w FROM wt_row) AS x GROUP BY g;
CREATE MATERIALIZED VIEW wt_near AS
SELECT g, count(*) AS c FROM (
    SELECT g, i, first_value(v) OVER (PARTITION BY g ORDER BY i RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a,
        last_value(v) OVER (PARTITION BY g ORDER BY i RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS b FROM wt_row
) AS x GROUP BY g;
-- + wt_row: 1 | 1 | 30
-- + wt_row: 1 | 1 | 10
-- + wt_row: 1 | 1 | 20
-- + wt_row: 1 | 2 | 5
-- + wt_row: 1 | 1 | 40
-- + wt_row: 2 | 1 | 1
-- = wt_total: 1 | 5
-- = wt_total: 2 | 1
-- = wt_near: 1 | 5
-- = wt_near: 2 | 1
