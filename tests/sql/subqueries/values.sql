-- Queries inside expressions, correlated or not, as values and as conditions.
CREATE TABLE sq_item (id INT PRIMARY KEY, kind VARCHAR, price NUMERIC);
CREATE TABLE sq_sale (id INT PRIMARY KEY, item INT, n INT);
CREATE MATERIALIZED VIEW sq_dearest AS SELECT id FROM sq_item WHERE price = (SELECT max(price) FROM sq_item);
CREATE MATERIALIZED VIEW sq_counted AS SELECT i.id, (SELECT count(*) FROM sq_sale s WHERE s.item = i.id) AS sales, (SELECT sum(s.n) FROM sq_sale s WHERE s.item = i.id) AS n FROM sq_item i;
CREATE MATERIALIZED VIEW sq_above AS SELECT i.id FROM sq_item i WHERE i.price > (SELECT avg(j.price) FROM sq_item j WHERE j.kind = i.kind);
CREATE MATERIALIZED VIEW sq_either AS SELECT id FROM sq_item i WHERE id IN (SELECT item FROM sq_sale) OR price < 2;
CREATE MATERIALIZED VIEW sq_any AS SELECT id FROM sq_item WHERE price > ALL (SELECT n FROM sq_sale WHERE n IS NOT NULL);

-- + sq_item: 1 | a | 2
-- + sq_item: 2 | a | 4
-- + sq_sale: 1 | 1 | 3
-- + sq_item: 3 | b | 1
-- + sq_sale: 2 | 2 | NULL
-- + sq_sale: 3 | 2 | 1
-- - sq_sale: 1 | 1 | 3
-- ~ sq_item: 2 | a | 4 => 2 | a | 3
-- + sq_item: 4 | b | 3

-- = sq_dearest: 2
-- = sq_dearest: 4
-- = sq_counted: 1 | 0 | NULL
-- = sq_counted: 2 | 2 | 1
-- = sq_counted: 3 | 0 | NULL
-- = sq_counted: 4 | 0 | NULL
-- = sq_above: 2
-- = sq_above: 4
-- = sq_either: 2
-- = sq_either: 3
-- = sq_any: 1
-- = sq_any: 2
-- = sq_any: 4
