-- DISTINCT aggregates beside plain ones, with FILTER; a value counts until its last row is gone.
CREATE TABLE da_visit (id INT PRIMARY KEY, page VARCHAR, who INT, ms INT);
CREATE MATERIALIZED VIEW da_pages AS
  SELECT page, count(*) AS visits, count(DISTINCT who) AS people, sum(DISTINCT ms) AS ms,
         count(DISTINCT who) FILTER (WHERE ms > 10) AS patient FROM da_visit GROUP BY page;
CREATE MATERIALIZED VIEW da_all AS SELECT count(DISTINCT page) AS pages, count(DISTINCT who) AS people, max(ms) AS longest FROM da_visit;
CREATE MATERIALIZED VIEW da_list AS SELECT page, string_agg(DISTINCT who::varchar, ',' ORDER BY who::varchar) AS people FROM da_visit GROUP BY page;

-- + da_visit: 1 | a | 1 | 5
-- + da_visit: 2 | a | 1 | 20
-- + da_visit: 3 | a | 2 | 20
-- + da_visit: 4 | b | 2 | 7
-- + da_visit: 5 | b | NULL | NULL
-- - da_visit: 3 | a | 2 | 20
-- ~ da_visit: 2 | a | 1 | 20 => 2 | a | 3 | 5
-- - da_visit: 4 | b | 2 | 7
-- + da_visit: 6 | a | 3 | 40

-- = da_pages: a | 3 | 2 | 45 | 1
-- = da_pages: b | 1 | 0 | NULL | 0
-- = da_all: 2 | 2 | 40
-- = da_list: a | 1,3
-- = da_list: b | NULL
