-- Groups that cross the bound of HAVING in both directions.
CREATE TABLE hv_t (id INT PRIMARY KEY, k VARCHAR, n INT);
CREATE MATERIALIZED VIEW hv_many AS SELECT k, sum(n) AS n FROM hv_t GROUP BY k HAVING count(*) > 1;
CREATE MATERIALIZED VIEW hv_names AS SELECT k FROM hv_t GROUP BY k HAVING max(n) > 5 OR k IS NULL;
CREATE MATERIALIZED VIEW hv_all AS SELECT sum(n) AS n FROM hv_t HAVING count(*) > 100;

-- + hv_t: 1 | a | 1
-- + hv_t: 2 | a | 2
-- + hv_t: 3 | b | 9
-- + hv_t: 4 | NULL | 1
-- - hv_t: 1 | a | 1
-- + hv_t: 5 | b | 1
-- ~ hv_t: 3 | b | 9 => 3 | b | 4
-- + hv_t: 6 | c | 6

-- = hv_many: b | 5
-- = hv_names: c
-- = hv_names: NULL
