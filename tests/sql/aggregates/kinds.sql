-- Every kind of aggregate over rows that come, change and go; a group that loses its last row is gone.
CREATE TABLE ag_sale (id INT PRIMARY KEY, item VARCHAR, n INT, price NUMERIC, w DOUBLE PRECISION, ok BOOLEAN);
CREATE MATERIALIZED VIEW ag_totals AS
  SELECT item, count(*) AS rows, count(n) AS known, sum(n) AS n, sum(price) AS price, avg(n) AS mean FROM ag_sale GROUP BY item;
CREATE MATERIALIZED VIEW ag_extremes AS
  SELECT item, min(n) AS least, max(price) AS dearest, min(w) AS light, max(w) AS heavy FROM ag_sale GROUP BY item;
CREATE MATERIALIZED VIEW ag_truth AS SELECT item, bool_and(ok) AS every, bool_or(ok) AS some FROM ag_sale GROUP BY item;
CREATE MATERIALIZED VIEW ag_whole AS
  SELECT count(*) AS rows, sum(n) AS n, sum(w) AS w, avg(w) AS mean, max(item) AS last FROM ag_sale;
CREATE MATERIALIZED VIEW ag_lists AS
  SELECT item, string_agg(id::varchar, '-' ORDER BY id DESC) AS ids, array_agg(n ORDER BY n NULLS FIRST) AS ns FROM ag_sale GROUP BY item;
CREATE MATERIALIZED VIEW ag_filtered AS
  SELECT count(*) FILTER (WHERE n > 1) AS many, sum(price) FILTER (WHERE ok) AS paid FROM ag_sale;
CREATE MATERIALIZED VIEW ag_by_expression AS SELECT n % 2 AS parity, upper(item) AS item, count(*) AS rows FROM ag_sale GROUP BY n % 2, upper(item);

-- + ag_sale: 1 | tea | 3 | 4.50 | 0.5 | true
-- + ag_sale: 2 | tea | 1 | 2.00 | NaN | false
-- + ag_sale: 3 | milk | NULL | NULL | NULL | NULL
-- + ag_sale: 4 | NULL | 5 | 1.25 | 2.5 | true
-- + ag_sale: 5 | rum | 9 | 30 | 1 | true
-- ~ ag_sale: 1 | tea | 3 | 4.50 | 0.5 | true => 1 | tea | 4 | 4.75 | 0.25 | true
-- - ag_sale: 2 | tea | 1 | 2.00 | NaN | false
-- + ag_sale: 6 | tea | 2 | 1.00 | 4 | NULL
-- - ag_sale: 5 | rum | 9 | 30 | 1 | true
-- ~ ag_sale: 4 | NULL | 5 | 1.25 | 2.5 | true => 7 | NULL | 5 | 1.5 | 2.5 | true

-- = ag_totals: tea | 2 | 2 | 6 | 5.75 | 3
-- = ag_totals: milk | 1 | 0 | NULL | NULL | NULL
-- = ag_totals: NULL | 1 | 1 | 5 | 1.5 | 5
-- = ag_extremes: tea | 2 | 4.75 | 0.25 | 4
-- = ag_extremes: milk | NULL | NULL | NULL | NULL
-- = ag_extremes: NULL | 5 | 1.5 | 2.5 | 2.5
-- = ag_truth: tea | true | true
-- = ag_truth: milk | NULL | NULL
-- = ag_truth: NULL | true | true
-- = ag_whole: 4 | 11 | 6.75 | 2.25 | tea
-- = ag_lists: tea | 6-1 | {2,4}
-- = ag_lists: milk | 3 | {NULL}
-- = ag_lists: NULL | 7 | {5}
-- = ag_filtered: 3 | 6.25
-- = ag_by_expression: 0 | TEA | 2
-- = ag_by_expression: NULL | MILK | 1
-- = ag_by_expression: 1 | NULL | 1
