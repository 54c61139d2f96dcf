-- The first of no rows is no row, before the first one comes and after the last one has gone.
CREATE TABLE tne_some (id INT PRIMARY KEY, v INT);
CREATE TABLE tne_none (id INT PRIMARY KEY, v INT);
CREATE MATERIALIZED VIEW tne_gone AS SELECT id, v FROM (SELECT id, v, row_number() OVER (ORDER BY id) AS n FROM tne_some) AS x WHERE n = 1;
CREATE MATERIALIZED VIEW tne_never AS SELECT id, v FROM (SELECT id, v, row_number() OVER (ORDER BY id) AS n FROM tne_none) AS x WHERE n = 1;
CREATE MATERIALIZED VIEW tne_number AS SELECT count(*) AS c FROM (SELECT id FROM tne_none ORDER BY id LIMIT 1) AS x;
-- + tne_some: 1 | 10
-- + tne_some: 2 | 20
-- - tne_some: 1 | 10
-- - tne_some: 2 | 20
-- ! tne_number: 0
-- = tne_number: 0
