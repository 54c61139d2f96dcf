-- Queries over the tables of test_queries.py, one a paragraph. Their rows on Spark must be PostgreSQL's.
-- A name after "--" in front of a query says what it is about.

-- select list
SELECT id, customer AS who, price * quantity AS total FROM orders

SELECT * FROM orders

SELECT o.*, o.id FROM orders o

SELECT 1, 'x', NULL, TRUE, 1.5, 2::bigint AS two

SELECT id, CASE WHEN price > 10 THEN 'dear' WHEN price > 2 THEN 'fair' END AS kind FROM orders

SELECT 7 / 2 AS whole, 7 / 2.0 AS part, -7 % 3 AS rest

SELECT 1 WHERE FALSE

-- where
SELECT id FROM orders WHERE price > 5 AND (item = 'tea' OR item IS NULL)

SELECT id FROM orders WHERE NOT (customer = 1)

SELECT id FROM orders WHERE customer IS DISTINCT FROM 1

SELECT id FROM orders WHERE customer IN (1, 2, NULL)

SELECT id FROM orders WHERE customer NOT IN (1, 2)

SELECT id FROM orders WHERE item LIKE 't%' AND quantity BETWEEN 1 AND 3

SELECT id FROM orders WHERE NULL

-- group by
SELECT customer, count(*), count(price), sum(quantity), avg(quantity), min(price), max(item) FROM orders GROUP BY customer

SELECT count(*), sum(quantity), max(price) FROM orders

SELECT count(*), sum(a), max(b) FROM nothing

SELECT a, count(*) FROM nothing GROUP BY a

SELECT customer % 2 AS parity, count(*) FROM orders GROUP BY 1

SELECT customer % 2 AS parity, count(*) FROM orders GROUP BY parity

SELECT customer % 2 + 1, sum(quantity) * 2 FROM orders GROUP BY customer % 2

SELECT upper(item) AS item, count(*) FROM orders GROUP BY item

SELECT customer, item, count(*) FROM orders GROUP BY customer, item HAVING count(*) > 1

SELECT item FROM orders GROUP BY item HAVING sum(quantity) > 3 OR item IS NULL

SELECT sum(quantity) FROM orders HAVING count(*) > 100

SELECT count(DISTINCT customer), count(DISTINCT item), sum(DISTINCT quantity) FROM orders

SELECT customer, count(*) FILTER (WHERE price > 5), sum(price) FILTER (WHERE item = 'tea') FROM orders GROUP BY customer

SELECT item, string_agg(quantity::text, ',' ORDER BY id) FROM orders GROUP BY item

SELECT item, array_agg(id ORDER BY id DESC) FROM orders GROUP BY item

SELECT bool_and(flag), bool_or(flag), count(flag) FROM numbers

SELECT 'all' AS what, count(*) FROM orders GROUP BY 1

SELECT customer FROM orders GROUP BY customer

SELECT date_trunc('day', at) AS day, count(*) FROM orders GROUP BY date_trunc('day', at)

-- grouping sets
SELECT customer, item, sum(quantity) FROM orders GROUP BY ROLLUP (customer, item)

SELECT customer, item, count(*) FROM orders GROUP BY CUBE (customer, item)

SELECT customer, item, count(*) FROM orders GROUP BY GROUPING SETS ((customer), (item), ())

-- joins
SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id

SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id

SELECT o.id, c.name FROM orders o RIGHT JOIN customers c ON o.customer = c.id

SELECT o.id, c.name FROM orders o FULL JOIN customers c ON o.customer = c.id

SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id AND c.city = 'Bern'

SELECT o.id, c.id FROM orders o, customers c WHERE o.customer = c.id AND o.quantity > 1

SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id

SELECT c.name, n.n FROM customers c CROSS JOIN numbers n

SELECT * FROM customers JOIN (SELECT customer AS id, count(*) AS orders FROM orders GROUP BY customer) x USING (id)

SELECT id, l.item, r.city FROM orders l FULL JOIN customers r USING (id)

SELECT * FROM (SELECT id, name FROM customers) a NATURAL LEFT JOIN (SELECT customer AS id, item FROM orders) b

SELECT c.name, o.item, n.flag FROM customers c LEFT JOIN orders o ON o.customer = c.id LEFT JOIN numbers n ON n.n = o.quantity

SELECT c.name, o.id FROM customers c LEFT JOIN (orders o JOIN numbers n ON n.n = o.quantity) ON o.customer = c.id

SELECT o.id, n.n FROM orders o JOIN numbers n ON o.quantity > n.n

SELECT o.id, e.b FROM orders o LEFT JOIN nothing e ON TRUE

SELECT n.n, c.name FROM numbers n, orders o RIGHT JOIN customers c ON c.id = o.customer WHERE n.n = 1

-- set operations
SELECT customer FROM orders UNION SELECT id FROM customers

SELECT customer FROM orders UNION ALL SELECT id FROM customers

SELECT customer FROM orders INTERSECT SELECT id FROM customers

SELECT customer FROM orders INTERSECT ALL SELECT quantity FROM orders

SELECT customer FROM orders EXCEPT SELECT id FROM customers

SELECT customer FROM orders EXCEPT ALL SELECT id FROM customers

SELECT id, NULL AS note FROM customers UNION ALL SELECT quantity, item FROM orders

SELECT n AS v FROM numbers UNION ALL SELECT x FROM numbers UNION ALL SELECT 3.5

(SELECT id FROM orders ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM customers ORDER BY id DESC LIMIT 1) ORDER BY id DESC

SELECT 1 AS a UNION SELECT 2 INTERSECT SELECT 2

SELECT count(*) FROM (SELECT item FROM orders UNION SELECT city FROM customers) u

-- values
VALUES (1, 'a'), (2, NULL), (NULL, 'c')

SELECT v.a, v.b + 1 FROM (VALUES (1, 2), (3, 4)) AS v (a, b)

SELECT o.id, v.label FROM orders o JOIN (VALUES ('tea', 'hot'), ('milk', 'cold')) v (item, label) ON v.item = o.item

-- distinct
SELECT DISTINCT customer FROM orders

SELECT DISTINCT customer, item FROM orders ORDER BY customer DESC, item

SELECT DISTINCT ON (customer) customer, id, price FROM orders ORDER BY customer, price DESC, id

SELECT DISTINCT ON (customer % 2) id FROM orders ORDER BY customer % 2, id DESC

-- order and limit
SELECT id, price FROM orders ORDER BY price DESC, id

SELECT id, price FROM orders ORDER BY price NULLS FIRST, id DESC

SELECT id, price FROM orders ORDER BY price DESC NULLS LAST, id LIMIT 3

SELECT id FROM orders ORDER BY quantity, id OFFSET 2 LIMIT 3

SELECT id FROM orders ORDER BY price * quantity DESC, id FETCH FIRST 2 ROWS ONLY

SELECT id, quantity FROM orders ORDER BY quantity DESC NULLS LAST FETCH FIRST 2 ROWS WITH TIES

SELECT item AS id, id AS item FROM orders ORDER BY item

SELECT customer, count(*) AS n FROM orders GROUP BY customer ORDER BY n DESC, 1 NULLS FIRST LIMIT 2

SELECT customer FROM orders GROUP BY customer ORDER BY sum(quantity) DESC, customer

SELECT x FROM (SELECT id AS x FROM orders ORDER BY id LIMIT 3) t WHERE x > 1

-- subqueries in from
SELECT t.who, t.n FROM (SELECT customer AS who, count(*) AS n FROM orders GROUP BY customer) t WHERE t.n > 1

SELECT max(n) FROM (SELECT count(*) AS n FROM orders GROUP BY customer) t

-- with
WITH big AS (SELECT * FROM orders WHERE price > 5) SELECT a.id, b.id FROM big a JOIN big b ON a.customer = b.customer

WITH a AS (SELECT id FROM orders), b (k) AS (SELECT id + 1 FROM a) SELECT * FROM a JOIN b ON a.id = b.k

-- in, exists
SELECT id FROM orders WHERE customer IN (SELECT id FROM customers)

SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers)

SELECT id FROM orders WHERE quantity NOT IN (SELECT customer FROM orders)

SELECT id FROM orders WHERE quantity NOT IN (SELECT a FROM nothing)

SELECT id FROM orders WHERE (customer, quantity) IN (SELECT id, id FROM customers)

SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.price > 5)

SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)

SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer > c.id) AND id > 1

SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders) AND NOT EXISTS (SELECT 1 FROM nothing)

SELECT name FROM customers c WHERE id IN (SELECT customer FROM orders o WHERE o.quantity > c.id)

SELECT id, customer IN (SELECT id FROM customers) AS known FROM orders

SELECT id, quantity NOT IN (SELECT customer FROM orders) AS odd FROM orders

SELECT name, EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) AS buys FROM customers c

SELECT id FROM orders WHERE price > ALL (SELECT price FROM orders WHERE item = 'milk')

SELECT id FROM orders WHERE quantity > ANY (SELECT id FROM customers)

SELECT id FROM orders WHERE quantity = ANY (SELECT id FROM customers) OR item = 'milk'

SELECT name FROM customers c WHERE id IN (SELECT count(*) FROM orders o WHERE o.customer = c.id)

SELECT name FROM customers c WHERE id IN (SELECT customer FROM orders GROUP BY customer HAVING count(*) > 1)

-- scalar subqueries
SELECT id, (SELECT max(price) FROM orders) AS top FROM orders

SELECT id FROM orders WHERE price = (SELECT max(price) FROM orders)

SELECT name, (SELECT count(*) FROM orders o WHERE o.customer = c.id) AS n FROM customers c

SELECT name, (SELECT sum(quantity) FROM orders o WHERE o.customer = c.id) AS n FROM customers c

SELECT name, (SELECT count(*) + 10 FROM orders o WHERE o.customer = c.id AND o.price > 5) AS n FROM customers c

SELECT name, (SELECT o.item FROM orders o WHERE o.customer = c.id ORDER BY o.price DESC NULLS LAST, o.id LIMIT 1) AS item FROM customers c

SELECT name, (SELECT count(*) FROM orders o WHERE o.customer > c.id) AS n FROM customers c

SELECT name, (SELECT max(o.price) FROM orders o WHERE o.quantity < c.id AND o.item = 'tea') AS n FROM customers c

SELECT id FROM orders o WHERE price > (SELECT avg(price) FROM orders i WHERE i.customer = o.customer)

SELECT customer, sum(quantity), (SELECT name FROM customers c WHERE c.id = o.customer) FROM orders o GROUP BY customer

SELECT customer FROM orders o GROUP BY customer HAVING count(*) > (SELECT count(*) FROM customers) - 2

SELECT name, (SELECT max(i.name) || ' of ' || c.city FROM customers i WHERE i.id = c.id) AS full_name FROM customers c

SELECT name, (SELECT i.name || ' of ' || c.city FROM customers i WHERE i.id = c.id AND i.city = 'Bern' AND i.id < 3) AS full_name FROM customers c

SELECT (SELECT a FROM nothing) AS none, (SELECT count(*) FROM nothing) AS zero

SELECT sum((SELECT count(*) FROM customers c WHERE c.id = o.customer)) FROM orders o

SELECT name FROM customers c ORDER BY (SELECT count(*) FROM orders o WHERE o.customer = c.id) DESC, name

SELECT name, (SELECT count(*) FROM (SELECT DISTINCT item FROM orders o WHERE o.customer = c.id) d) AS items FROM customers c

SELECT name, (SELECT count(*) FROM orders o WHERE o.customer = c.id AND EXISTS (SELECT 1 FROM numbers n WHERE n.n = o.quantity AND n.n <> c.id)) AS k FROM customers c

SELECT name FROM customers c WHERE (SELECT count(*) FROM (SELECT id FROM orders o WHERE o.customer = c.id UNION ALL SELECT n FROM numbers WHERE n = c.id) u) > 2

-- lateral
SELECT c.name, l.id, l.price FROM customers c CROSS JOIN LATERAL (SELECT id, price FROM orders o WHERE o.customer = c.id ORDER BY price DESC NULLS LAST, id LIMIT 2) l

SELECT c.name, l.n FROM customers c LEFT JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer = c.id) l ON TRUE

SELECT c.name, l.item FROM customers c LEFT JOIN LATERAL (SELECT o.item FROM orders o WHERE o.customer = c.id AND o.quantity > 1) l ON TRUE

SELECT c.name, v.k, v.x FROM customers c, LATERAL (VALUES ('id', c.id), ('twice', c.id * 2)) v (k, x)

-- windows
SELECT id, row_number() OVER (PARTITION BY customer ORDER BY price DESC, id) AS place FROM orders

SELECT id, rank() OVER (ORDER BY quantity) AS r, dense_rank() OVER (ORDER BY quantity) AS d FROM orders

SELECT id, sum(quantity) OVER (PARTITION BY customer ORDER BY id) AS running, count(*) OVER () AS everything FROM orders

SELECT id, sum(quantity) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS around FROM orders

SELECT id, lag(price) OVER w AS before, lead(price, 2) OVER w AS later FROM orders WINDOW w AS (PARTITION BY customer ORDER BY id)

SELECT id, first_value(item) OVER (PARTITION BY customer ORDER BY id) AS first FROM orders

SELECT customer, sum(quantity) AS n, rank() OVER (ORDER BY sum(quantity) DESC, customer) AS place FROM orders GROUP BY customer

SELECT id, price FROM (SELECT id, price, row_number() OVER (PARTITION BY customer ORDER BY price DESC, id) AS place FROM orders) t WHERE place = 1

SELECT item, quantity - avg(quantity) OVER (PARTITION BY item) AS off FROM orders WHERE quantity IS NOT NULL

SELECT customer, count(*), sum(count(*)) OVER () FROM orders GROUP BY customer

-- functions that give rows
SELECT * FROM generate_series(1, 5) AS g

SELECT id, unnest(tags) AS tag FROM orders

SELECT o.id, u.tag FROM orders o, unnest(o.tags) AS u (tag)

SELECT o.id, u.tag, u.place FROM orders o CROSS JOIN unnest(o.tags) WITH ORDINALITY AS u (tag, place)

SELECT o.id, u.tag FROM orders o LEFT JOIN unnest(o.tags) AS u (tag) ON TRUE

SELECT tag, count(*) FROM orders o CROSS JOIN unnest(o.tags) AS u (tag) GROUP BY tag

SELECT c.name, g FROM customers c, generate_series(1, c.id) AS g

SELECT id FROM orders WHERE 2 = ANY (tags)

-- subqueries that look far
SELECT name, (SELECT count(*) FROM orders o FULL JOIN numbers n ON n.n = o.quantity AND o.customer = c.id WHERE n.n IS NOT NULL) AS k FROM customers c

SELECT name, (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY price) AS r FROM orders o WHERE o.customer = c.id) x) AS k FROM customers c

SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id UNION ALL SELECT 1 FROM numbers n WHERE n.n > c.id + 1)

SELECT name, (SELECT count(*) FROM orders o LEFT JOIN numbers n ON n.n = o.quantity AND n.n = c.id) AS k FROM customers c

SELECT id, (SELECT count(*) FROM unnest(o.tags) AS u (tag) WHERE tag > 1) AS k FROM orders o

SELECT name FROM customers c WHERE 2 IN (SELECT quantity FROM orders o WHERE o.customer = c.id AND o.price > (SELECT avg(price) FROM orders i WHERE i.customer = c.id))

SELECT name, (SELECT string_agg(item, ',' ORDER BY id) FROM orders o WHERE o.customer = c.id AND o.id IN (SELECT n FROM numbers n WHERE n.n <> c.id)) AS items FROM customers c

SELECT c.name, x.n, y.m FROM customers c CROSS JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer = c.id) x CROSS JOIN LATERAL (SELECT x.n + c.id AS m) y

SELECT c.name, l.d FROM customers c, LATERAL (SELECT DISTINCT item AS d FROM orders o WHERE o.quantity >= c.id) l

SELECT name, id = ALL (SELECT customer FROM orders o WHERE o.item = 'tea' AND o.customer >= c.id) AS same FROM customers c

SELECT item, sum(quantity) FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer) GROUP BY item HAVING sum(quantity) > (SELECT min(n) FROM numbers)

WITH known AS (SELECT DISTINCT customer FROM orders) SELECT name, EXISTS (SELECT 1 FROM known k WHERE k.customer = c.id) AS k FROM customers c

SELECT name, (SELECT customer FROM orders o WHERE o.customer = c.id GROUP BY customer) AS k FROM customers c

SELECT name, (SELECT count(*) FROM (SELECT id FROM orders o WHERE o.customer = c.id LIMIT 2) x) AS few FROM customers c

SELECT (SELECT c.name FROM customers c WHERE c.id = o.customer AND c.city = 'Bern') AS who, count(*) FROM orders o GROUP BY 1

SELECT name FROM customers c WHERE (c.id, 3) IN (SELECT customer, quantity FROM orders) OR (SELECT bool_or(flag) FROM numbers n WHERE n.n = c.id)

SELECT id FROM orders o WHERE price > (SELECT min(price) FROM orders) AND customer IN (SELECT id FROM customers) AND NOT EXISTS (SELECT 1 FROM numbers n WHERE n.n = o.id)

SELECT id FROM orders WHERE (SELECT count(*) FROM nothing) + 1 IN (SELECT id FROM customers) AND quantity = 1
