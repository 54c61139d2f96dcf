-- Constant rows beside and below those of tables.
CREATE TABLE va_t (id INT PRIMARY KEY, k VARCHAR);
CREATE MATERIALIZED VIEW va_union AS SELECT k FROM va_t UNION ALL VALUES ('x'), ('y');
CREATE MATERIALIZED VIEW va_names AS SELECT v.name, count(t.id) AS n FROM (VALUES ('a', 'first'), ('b', 'second')) AS v(k, name) LEFT JOIN va_t t ON t.k = v.k GROUP BY v.name;
CREATE MATERIALIZED VIEW va_alone AS SELECT * FROM (VALUES (1, 'one'), (2, NULL)) AS v(n, s);

-- + va_t: 1 | a
-- + va_t: 2 | b
-- + va_t: 3 | a
-- - va_t: 2 | b

-- = va_union: a
-- = va_union: a
-- = va_union: x
-- = va_union: y
-- = va_names: first | 2
-- = va_names: second | 0
-- = va_alone: 1 | one
-- = va_alone: 2 | NULL
