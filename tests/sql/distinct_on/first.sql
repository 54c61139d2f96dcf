-- The newest row of each key; when it goes, the one before it is the newest again.
CREATE TABLE don_t (id INT PRIMARY KEY, k VARCHAR, at INT, v VARCHAR);
CREATE MATERIALIZED VIEW don_newest AS SELECT DISTINCT ON (k) k, at, v FROM don_t ORDER BY k, at DESC, id DESC;
CREATE MATERIALIZED VIEW don_counted AS SELECT v, count(*) AS n FROM (SELECT DISTINCT ON (k) k, v FROM don_t ORDER BY k, at, id) s GROUP BY v;

-- + don_t: 1 | a | 1 | x
-- + don_t: 2 | a | 3 | y
-- + don_t: 3 | b | 1 | x
-- + don_t: 4 | NULL | 1 | z
-- - don_t: 2 | a | 3 | y
-- ~ don_t: 3 | b | 1 | x => 3 | b | 1 | w
-- + don_t: 5 | b | 1 | v
-- + don_t: 6 | NULL | 0 | x

-- = don_newest: a | 1 | x
-- = don_newest: b | 1 | v
-- = don_newest: NULL | 1 | z
-- = don_counted: x | 2
-- = don_counted: w | 1
