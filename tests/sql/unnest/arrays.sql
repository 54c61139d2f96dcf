-- One row becomes several, and they go with it.
CREATE TABLE un_t (id INT PRIMARY KEY, a INT, b INT);
CREATE MATERIALIZED VIEW un_rows AS SELECT id, v FROM un_t, unnest(ARRAY[a, b]) AS u(v);
CREATE MATERIALIZED VIEW un_counted AS SELECT v, count(*) AS n FROM un_t, unnest(ARRAY[a, b]) AS u(v) GROUP BY v;
CREATE MATERIALIZED VIEW un_series AS SELECT id, g FROM un_t, generate_series(1, a) AS s(g);
CREATE MATERIALIZED VIEW un_numbered AS SELECT id, v, o FROM un_t, unnest(ARRAY[a, b]) WITH ORDINALITY AS u(v, o) WHERE v IS NOT NULL;

-- + un_t: 1 | 1 | 2
-- + un_t: 2 | 2 | NULL
-- + un_t: 3 | 5 | 5
-- - un_t: 3 | 5 | 5
-- ~ un_t: 1 | 1 | 2 => 1 | 2 | 2
-- + un_t: 4 | 0 | 1

-- = un_rows: 1 | 2
-- = un_rows: 1 | 2
-- = un_rows: 2 | 2
-- = un_rows: 2 | NULL
-- = un_rows: 4 | 0
-- = un_rows: 4 | 1
-- = un_counted: 2 | 3
-- = un_counted: NULL | 1
-- = un_counted: 0 | 1
-- = un_counted: 1 | 1
-- = un_series: 1 | 1
-- = un_series: 1 | 2
-- = un_series: 2 | 1
-- = un_series: 2 | 2
-- = un_numbered: 1 | 2 | 1
-- = un_numbered: 1 | 2 | 2
-- = un_numbered: 2 | 2 | 1
-- = un_numbered: 4 | 0 | 1
-- = un_numbered: 4 | 1 | 2
