-- Every kind of join between two tables that change; rows get and lose their partners.
CREATE TABLE jo_order (id INT PRIMARY KEY, who INT, n INT);
CREATE TABLE jo_person (id INT PRIMARY KEY, name VARCHAR, quota INT);
CREATE MATERIALIZED VIEW jo_inner AS SELECT o.id, p.name FROM jo_order o JOIN jo_person p ON o.who = p.id;
CREATE MATERIALIZED VIEW jo_left AS SELECT o.id, p.name FROM jo_order o LEFT JOIN jo_person p ON o.who = p.id;
CREATE MATERIALIZED VIEW jo_right AS SELECT o.id, p.name FROM jo_order o RIGHT JOIN jo_person p ON o.who = p.id;
CREATE MATERIALIZED VIEW jo_full AS SELECT o.id, p.name FROM jo_order o FULL JOIN jo_person p ON o.who = p.id;
CREATE MATERIALIZED VIEW jo_cross AS SELECT o.id, p.name FROM jo_order o CROSS JOIN jo_person p;
CREATE MATERIALIZED VIEW jo_unequal AS SELECT o.id, p.name FROM jo_order o JOIN jo_person p ON o.n > p.quota;
CREATE MATERIALIZED VIEW jo_left_unequal AS SELECT o.id, p.name FROM jo_order o LEFT JOIN jo_person p ON o.who = p.id AND o.n > p.quota;
CREATE MATERIALIZED VIEW jo_semi AS SELECT p.name FROM jo_person p WHERE EXISTS (SELECT 1 FROM jo_order o WHERE o.who = p.id);
CREATE MATERIALIZED VIEW jo_in AS SELECT id FROM jo_order WHERE who IN (SELECT id FROM jo_person WHERE quota > 1);
CREATE MATERIALIZED VIEW jo_anti AS SELECT p.name FROM jo_person p WHERE NOT EXISTS (SELECT 1 FROM jo_order o WHERE o.who = p.id);
CREATE MATERIALIZED VIEW jo_not_in AS SELECT id FROM jo_person WHERE id NOT IN (SELECT who FROM jo_order WHERE who IS NOT NULL);
CREATE MATERIALIZED VIEW jo_not_in_null AS SELECT id FROM jo_person WHERE id NOT IN (SELECT who FROM jo_order);
CREATE MATERIALIZED VIEW jo_self AS SELECT a.id AS a, b.id AS b FROM jo_order a JOIN jo_order b ON a.who = b.who AND a.id < b.id;
CREATE MATERIALIZED VIEW jo_null_safe AS SELECT a.id AS a, b.id AS b FROM jo_order a JOIN jo_order b ON a.who IS NOT DISTINCT FROM b.who AND a.id < b.id;
CREATE MATERIALIZED VIEW jo_three AS SELECT o.id, p.name, q.name AS other FROM jo_order o JOIN jo_person p ON o.who = p.id LEFT JOIN jo_person q ON q.quota = o.n;
CREATE MATERIALIZED VIEW jo_counted AS SELECT p.name, count(o.id) AS orders, sum(o.n) AS n FROM jo_person p LEFT JOIN jo_order o ON o.who = p.id GROUP BY p.name;

-- + jo_order: 1 | 1 | 5
-- + jo_order: 2 | 9 | 1
-- + jo_person: 1 | ada | 2
-- + jo_person: 2 | bob | 7
-- + jo_order: 3 | 1 | 1
-- + jo_order: 4 | NULL | 8
-- ~ jo_order: 2 | 9 | 1 => 2 | 2 | 1
-- + jo_person: 3 | cy | 0
-- - jo_order: 3 | 1 | 1
-- ~ jo_order: 2 | 2 | 1 => 2 | NULL | 3
-- ~ jo_person: 3 | cy | 0 => 3 | cyd | 3
-- + jo_order: 5 | 1 | 3
-- - jo_person: 2 | bob | 7
-- + jo_person: 2 | bo | NULL

-- = jo_inner: 1 | ada
-- = jo_inner: 5 | ada
-- = jo_left: 1 | ada
-- = jo_left: 5 | ada
-- = jo_left: 2 | NULL
-- = jo_left: 4 | NULL
-- = jo_right: 1 | ada
-- = jo_right: 5 | ada
-- = jo_right: NULL | bo
-- = jo_right: NULL | cyd
-- = jo_full: 1 | ada
-- = jo_full: 5 | ada
-- = jo_full: 2 | NULL
-- = jo_full: 4 | NULL
-- = jo_full: NULL | bo
-- = jo_full: NULL | cyd
-- = jo_cross: 1 | ada
-- = jo_cross: 1 | bo
-- = jo_cross: 1 | cyd
-- = jo_cross: 2 | ada
-- = jo_cross: 2 | bo
-- = jo_cross: 2 | cyd
-- = jo_cross: 4 | ada
-- = jo_cross: 4 | bo
-- = jo_cross: 4 | cyd
-- = jo_cross: 5 | ada
-- = jo_cross: 5 | bo
-- = jo_cross: 5 | cyd
-- = jo_unequal: 1 | ada
-- = jo_unequal: 1 | cyd
-- = jo_unequal: 2 | ada
-- = jo_unequal: 4 | ada
-- = jo_unequal: 4 | cyd
-- = jo_unequal: 5 | ada
-- = jo_left_unequal: 1 | ada
-- = jo_left_unequal: 5 | ada
-- = jo_left_unequal: 2 | NULL
-- = jo_left_unequal: 4 | NULL
-- = jo_semi: ada
-- = jo_in: 1
-- = jo_in: 5
-- = jo_anti: bo
-- = jo_anti: cyd
-- = jo_not_in: 2
-- = jo_not_in: 3
-- = jo_self: 1 | 5
-- = jo_null_safe: 1 | 5
-- = jo_null_safe: 2 | 4
-- = jo_three: 1 | ada | NULL
-- = jo_three: 5 | ada | cyd
-- = jo_counted: ada | 2 | 8
-- = jo_counted: bo | 0 | NULL
-- = jo_counted: cyd | 0 | NULL
