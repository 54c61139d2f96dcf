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

-- equality of floats
SELECT a.k, b.k AS o FROM extremes a JOIN extremes b ON a.x = b.x

SELECT a.k, b.k AS o FROM extremes a JOIN extremes b ON a.y = b.y

SELECT a.k, b.k AS o FROM extremes a JOIN extremes b ON a.x = b.y

SELECT a.k, b.k AS o FROM extremes a FULL JOIN extremes b ON a.x = b.y

SELECT a.k, b.k AS o FROM extremes a JOIN extremes b ON a.x IS NOT DISTINCT FROM b.x

SELECT a.k, b.k AS o FROM extremes a JOIN extremes b ON ARRAY[a.x] = ARRAY[b.x]

SELECT a.k, b.k AS o FROM extremes a JOIN extremes b ON ROW(a.x, a.y) = ROW(b.x, b.y)

SELECT k FROM extremes WHERE x IN (SELECT y FROM extremes WHERE k < 3)

SELECT k FROM extremes WHERE x NOT IN (SELECT x FROM extremes WHERE k = 2)

SELECT k FROM extremes WHERE x NOT IN (SELECT y FROM extremes WHERE k IN (1, 3))

SELECT k FROM extremes WHERE y NOT IN (SELECT y FROM extremes WHERE k = 1)

SELECT k FROM extremes WHERE x + 1 NOT IN (SELECT -x FROM extremes WHERE k = 1)

SELECT k FROM extremes WHERE -x NOT IN (SELECT x FROM extremes WHERE k IN (2, 3))

SELECT k FROM extremes WHERE (x, y) NOT IN (SELECT y, x FROM extremes WHERE k IN (1, 3))

SELECT k FROM extremes WHERE ARRAY[x] NOT IN (SELECT ARRAY[x] FROM extremes WHERE k = 2)

SELECT k FROM extremes WHERE x NOT IN (SELECT x FROM empty_extremes)

SELECT k FROM extremes WHERE x NOT IN (SELECT x FROM extremes)

SELECT k, x NOT IN (SELECT x FROM extremes WHERE k = 2) AS a, x IN (SELECT y FROM extremes WHERE k < 4) AS b FROM extremes

SELECT k FROM extremes WHERE x <> ALL (SELECT y FROM extremes WHERE k = 1)

SELECT k FROM extremes WHERE x = ANY (ARRAY['-0'::float8, 'NaN'])

SELECT k FROM extremes WHERE x IN (0, 7)

SELECT k FROM extremes WHERE x IN ('-0'::float8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 'NaN'::float8)

SELECT k FROM extremes WHERE x NOT IN ('-0'::float8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 'NaN'::float8)

SELECT x, count(*) FROM extremes GROUP BY x

SELECT z, count(*) FROM (SELECT x AS z FROM extremes UNION ALL SELECT y FROM extremes) s GROUP BY z

SELECT count(*) FROM extremes GROUP BY ROW(x, 1)

SELECT mode() WITHIN GROUP (ORDER BY x) AS m FROM (SELECT x FROM extremes WHERE k < 3 UNION ALL SELECT 7 UNION ALL SELECT 7 UNION ALL SELECT -x FROM extremes WHERE k < 2) s

SELECT ARRAY[x] AS z, count(*) FROM extremes GROUP BY 1

SELECT DISTINCT x FROM extremes

SELECT x FROM extremes UNION SELECT -x FROM extremes

SELECT x FROM extremes INTERSECT SELECT -x FROM extremes

SELECT x FROM extremes INTERSECT ALL SELECT y FROM extremes

SELECT x FROM extremes EXCEPT SELECT y FROM extremes WHERE k = 1

SELECT x FROM extremes EXCEPT ALL SELECT y FROM extremes WHERE k = 1

SELECT count(DISTINCT x) AS a, count(DISTINCT y) AS b, count(DISTINCT -x) AS c FROM extremes

SELECT array_agg(DISTINCT x ORDER BY x) AS a FROM extremes

SELECT cardinality(array_agg(DISTINCT x)) AS a FROM extremes

SELECT sum(DISTINCT x) AS a FROM extremes WHERE k < 3

SELECT k, count(*) OVER (PARTITION BY x) AS n, rank() OVER (ORDER BY x) AS r, dense_rank() OVER (ORDER BY y DESC) AS d FROM extremes

SELECT k, count(*) OVER (ORDER BY x RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS n FROM extremes

SELECT DISTINCT ON (x) x, k FROM extremes ORDER BY x, k

SELECT k FROM extremes ORDER BY x, k

SELECT k FROM extremes ORDER BY y DESC, k LIMIT 3

SELECT k FROM extremes ORDER BY x FETCH FIRST 3 ROWS WITH TIES

SELECT k, (SELECT count(*) FROM extremes b WHERE b.x = a.x) AS n FROM extremes a

SELECT k, (SELECT max(b.k) FROM extremes b WHERE b.y = a.x) AS n FROM extremes a

SELECT k, nullif(x, 0) AS a, greatest(x, 1) AS b, least(x, 1) AS c, CASE x WHEN 0 THEN 'zero' WHEN 'NaN' THEN 'nan' END AS d FROM extremes

SELECT k, x = y AS a, x < y AS b, x <= y AS c, x <> y AS d, x IS DISTINCT FROM y AS e FROM extremes

SELECT min(x) AS a, max(x) AS b, min(y) AS c, max(y) AS d FROM extremes

SELECT k, array_position(ARRAY['-0'::float8, 'NaN', 1], x) AS a, ARRAY[x] && ARRAY[0::float8] AS b, ARRAY[x] @> ARRAY['NaN'::float8] AS c FROM extremes

SELECT k, array_remove(ARRAY['-0'::float8, 'NaN', 1], x) AS a FROM extremes

SELECT x, y, count(*) FROM extremes GROUP BY GROUPING SETS ((x), (y), ())

-- limits of numbers
SELECT i, b, count(*) FROM extremes GROUP BY i, b

SELECT sum(i) AS a, sum(b) AS b, min(i) AS c, max(b) AS d, avg(i) AS e, avg(b) AS f FROM extremes

SELECT k, i::bigint * 2 AS a, b::numeric * 2 AS c, i % -1 AS d, b % -1 AS e FROM extremes

SELECT k, i = b AS a, i < b AS c, i::float8 = b AS d FROM extremes

SELECT sum(i) AS a, sum(b) AS b, min(x) AS c, max(y) AS d, avg(i) AS e, count(x) AS f FROM empty_extremes

SELECT a.k FROM extremes a LEFT JOIN empty_extremes b ON a.k = b.k WHERE b.k IS NULL

SELECT k FROM (SELECT k, row_number() OVER (ORDER BY k) AS r FROM empty_extremes) s WHERE r = 1

SELECT k, r FROM (SELECT k, row_number() OVER (PARTITION BY i ORDER BY k) AS r FROM extremes) s WHERE r = 1

SELECT k FROM extremes WHERE k NOT IN (SELECT k FROM empty_extremes) ORDER BY k

SELECT k FROM empty_extremes UNION ALL SELECT k FROM empty_extremes ORDER BY 1 LIMIT 1

SELECT count(*) AS n FROM (SELECT DISTINCT i FROM empty_extremes) s

-- objects with a key more than once
SELECT jsonb_object_agg(k, v ORDER BY n)::text AS j FROM (VALUES ('a', 1, 1), ('b', 5, 2), ('a', 2, 3), ('a', 0, 0)) AS x (k, v, n)

SELECT (j ->> 'tea')::int AS t, (j ->> 'milk')::int AS m FROM (SELECT jsonb_object_agg(item, id ORDER BY id) AS j FROM orders WHERE item IS NOT NULL) s

SELECT (j ->> 'tea')::numeric AS t, (j ->> 'milk')::numeric AS m FROM (SELECT jsonb_object_agg(item, price ORDER BY id DESC) AS j FROM orders WHERE item IS NOT NULL) s

SELECT '{"a": 1, "b": {"x": 1, "x": 2}, "a": 2}'::jsonb::text AS j, jsonb_build_object('a', 1, 'a', 2)::text AS k

-- bits
SELECT ~1 + 1 AS a, 1 - ~1 + 1 AS b, ~1 & 3 AS c, |/ 4 + 5 AS d, 'a' || 1 + 2 AS e

-- large numerics
SELECT 900000000000000000000::numeric AS a, 9999999999999999999999999999.9999999999::numeric AS b, -1234567890123456789012345678.5 AS c, 1e20::numeric AS d

SELECT 900000000000000000000::numeric + 0.5 AS a, 900000000000000000000::numeric * 3.25 AS b, 900000000000000000000::numeric / 8 AS c, 900000000000000000000::numeric % 7 AS d, -900000000000000000000::numeric - 1 AS e

SELECT a * b AS p, a / b AS q, a + b AS s FROM (VALUES (123456789012345678.9::numeric, 0.5::numeric), (1234567890123456789012.25, 0.25), (9e26, 0.1), (-9e27, 1), (9e20, 4096), (-1234567890123.5, 1000000000.25 - 1000000000)) AS v (a, b)

SELECT a * b * c AS p FROM (VALUES (1234567890123.45::numeric, 1234567.89::numeric, 12.5::numeric), (-1e10, 1e10, 1e-10)) AS v (a, b, c)

SELECT sum(n) AS a, avg(n) AS b, min(n) AS c, max(n) AS d FROM (VALUES (9000000000000000000000000000::numeric), (9000000000000000000000000000), (-9000000000000000000000000000), (0.5), (-8999999999999999999999999999.5), (NULL)) AS v (n)

SELECT g, sum(n) AS a, avg(n) AS b FROM (VALUES (1, 1e20::numeric), (1, 2e20), (2, -1e27), (2, 2), (3, 12345678901234567890.123)) AS v (g, n) GROUP BY g

SELECT k, sum(n) OVER (ORDER BY k) AS a FROM (VALUES (1, 9e27::numeric), (2, 0.25), (3, -9e27)) AS v (k, n)

SELECT sum(n) AS a FROM (VALUES (99999999999999999999999999999999999998::numeric(38, 0)), (1::numeric(38, 0))) AS v (n)

SELECT round(1e20::numeric / 4, 4) AS a, trunc(1e20::numeric + 0.55, 1) AS b, ceil(1e20::numeric + 0.5) AS c, floor(-1e20::numeric - 0.5) AS d, abs(-1e27::numeric) AS e, 1e20::numeric = 100000000000000000000.0 AS f, (1e20::numeric)::text AS g, 1e18::numeric::bigint AS h
