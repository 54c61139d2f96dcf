-- Aggregates and keys of groups, compared with the rows of subqueries that look at the group.
CREATE TABLE sg_sale (id INT PRIMARY KEY, k INT, v INT);
CREATE TABLE sg_goal (k INT, v INT);
CREATE MATERIALIZED VIEW sg_any AS
SELECT k, sum(v) AS s FROM sg_sale GROUP BY k HAVING sum(v) = ANY (SELECT g.v FROM sg_goal AS g WHERE g.k = sg_sale.k);
CREATE MATERIALIZED VIEW sg_all AS
SELECT k, sum(v) AS s FROM sg_sale GROUP BY k HAVING sum(v) >= ALL (SELECT g.v FROM sg_goal AS g WHERE g.k <= sg_sale.k);
CREATE MATERIALIZED VIEW sg_value AS
SELECT k + 1 AS a, max(v) NOT IN (SELECT v FROM sg_goal) AS b FROM sg_sale GROUP BY k + 1;
CREATE MATERIALIZED VIEW sg_row AS
SELECT k FROM sg_sale GROUP BY k HAVING (k, count(*)) IN (SELECT k, v FROM sg_goal);
CREATE MATERIALIZED VIEW sg_total AS SELECT sum(v) IN (SELECT v FROM sg_goal) AS b FROM sg_sale;
-- + sg_sale: 1 | 1 | 10
-- + sg_goal: 1 | 30
-- + sg_goal: 2 | 1
-- + sg_sale: 2 | 1 | 20
-- + sg_sale: 3 | 2 | 5
-- ~ sg_sale: 3 | 2 | 5 => 3 | 2 | 7
-- + sg_sale: 4 | 3 | 1
-- + sg_goal: 3 | 38
-- = sg_any: 1 | 30
-- = sg_all: 1 | 30
-- = sg_value: 2 | true
-- = sg_value: 3 | true
-- = sg_value: 4 | false
-- = sg_row: 2
-- = sg_total: true
