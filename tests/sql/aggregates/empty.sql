-- An aggregate over everything has its row from the beginning, and again when all rows are gone.
CREATE TABLE em_t (id INT PRIMARY KEY, n INT, x DOUBLE PRECISION);
CREATE TABLE em_late (id INT PRIMARY KEY, x DOUBLE PRECISION);
CREATE TABLE em_never (id INT PRIMARY KEY, n INT);
CREATE MATERIALIZED VIEW em_all AS SELECT count(*) AS rows, sum(n) AS n, sum(x) AS x, min(n) AS least FROM em_t;
CREATE MATERIALIZED VIEW em_groups AS SELECT n, count(*) AS rows FROM em_t GROUP BY n;
CREATE MATERIALIZED VIEW em_none AS SELECT count(*) AS rows, max(n) AS n FROM em_never;
CREATE MATERIALIZED VIEW em_nulls AS SELECT id % 2 AS k, sum(x) AS x, avg(x) AS mean FROM em_late GROUP BY 1;

-- + em_t: 1 | 4 | 1.5
-- + em_t: 2 | NULL | NULL
-- + em_late: 1 | 1.5
-- - em_t: 1 | 4 | 1.5
-- + em_late: 2 | NULL
-- - em_t: 2 | NULL | NULL

-- = em_all: 0 | NULL | NULL | NULL
-- = em_none: 0 | NULL
-- = em_nulls: 1 | 1.5 | 1.5
-- = em_nulls: 0 | NULL | NULL
