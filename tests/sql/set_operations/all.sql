-- Set operations count how often a row is there; the tables have no key, so that rows repeat.
CREATE TABLE so_a (x INT, s VARCHAR);
CREATE TABLE so_b (x INT, s VARCHAR);
CREATE MATERIALIZED VIEW so_union AS SELECT x, s FROM so_a UNION SELECT x, s FROM so_b;
CREATE MATERIALIZED VIEW so_union_all AS SELECT x FROM so_a UNION ALL SELECT x FROM so_b;
CREATE MATERIALIZED VIEW so_intersect AS SELECT x, s FROM so_a INTERSECT SELECT x, s FROM so_b;
CREATE MATERIALIZED VIEW so_intersect_all AS SELECT x, s FROM so_a INTERSECT ALL SELECT x, s FROM so_b;
CREATE MATERIALIZED VIEW so_except AS SELECT x, s FROM so_a EXCEPT SELECT x, s FROM so_b;
CREATE MATERIALIZED VIEW so_except_all AS SELECT x, s FROM so_a EXCEPT ALL SELECT x, s FROM so_b;
CREATE MATERIALIZED VIEW so_distinct AS SELECT DISTINCT s FROM so_a;

-- + so_a: 1 | a
-- + so_a: 1 | a
-- + so_b: 1 | a
-- + so_a: 1 | a
-- + so_a: 2 | NULL
-- + so_b: 2 | NULL
-- + so_b: 2 | NULL
-- + so_a: 3 | c
-- + so_b: 1 | a
-- + so_b: 4 | d
-- + so_a: NULL | NULL

-- = so_union: 1 | a
-- = so_union: 2 | NULL
-- = so_union: 3 | c
-- = so_union: 4 | d
-- = so_union: NULL | NULL
-- = so_union_all: 1
-- = so_union_all: 1
-- = so_union_all: 1
-- = so_union_all: 1
-- = so_union_all: 1
-- = so_union_all: 2
-- = so_union_all: 2
-- = so_union_all: 2
-- = so_union_all: 3
-- = so_union_all: 4
-- = so_union_all: NULL
-- = so_intersect: 1 | a
-- = so_intersect: 2 | NULL
-- = so_intersect_all: 1 | a
-- = so_intersect_all: 1 | a
-- = so_intersect_all: 2 | NULL
-- = so_except: 3 | c
-- = so_except: NULL | NULL
-- = so_except_all: 1 | a
-- = so_except_all: 3 | c
-- = so_except_all: NULL | NULL
-- = so_distinct: a
-- = so_distinct: c
-- = so_distinct: NULL
