-- ROLLUP, CUBE and GROUPING SETS: a NULL of the data is not the NULL of a total.
CREATE TABLE gs_t (id INT PRIMARY KEY, region VARCHAR, item VARCHAR, n INT);
CREATE MATERIALIZED VIEW gs_rollup AS SELECT region, item, sum(n) AS n, count(*) AS rows FROM gs_t GROUP BY ROLLUP (region, item);
CREATE MATERIALIZED VIEW gs_sets AS SELECT region, item, sum(n) AS n FROM gs_t GROUP BY GROUPING SETS ((region), (item));
CREATE MATERIALIZED VIEW gs_cube AS SELECT region, count(DISTINCT item) AS items FROM gs_t GROUP BY CUBE (region);
CREATE MATERIALIZED VIEW gs_none AS SELECT region, count(*) AS rows FROM gs_t WHERE n > 100 GROUP BY ROLLUP (region);

-- + gs_t: 1 | north | tea | 1
-- + gs_t: 2 | north | NULL | 2
-- + gs_t: 3 | south | tea | 4
-- + gs_t: 4 | south | rum | 8
-- - gs_t: 4 | south | rum | 8
-- ~ gs_t: 1 | north | tea | 1 => 1 | north | rum | 16

-- = gs_rollup: north | rum | 16 | 1
-- = gs_rollup: north | NULL | 2 | 1
-- = gs_rollup: south | tea | 4 | 1
-- = gs_rollup: north | NULL | 18 | 2
-- = gs_rollup: south | NULL | 4 | 1
-- = gs_rollup: NULL | NULL | 22 | 3
-- = gs_sets: north | NULL | 18
-- = gs_sets: south | NULL | 4
-- = gs_sets: NULL | rum | 16
-- = gs_sets: NULL | tea | 4
-- = gs_sets: NULL | NULL | 2
-- = gs_cube: north | 1
-- = gs_cube: south | 1
-- = gs_cube: NULL | 2
-- = gs_none: NULL | 0
