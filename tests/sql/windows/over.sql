-- Window calls: a change in a partition changes the rows beside it, in other partitions none.
CREATE TABLE wi_t (id INT PRIMARY KEY, k VARCHAR, n INT);
CREATE MATERIALIZED VIEW wi_place AS SELECT id, rank() OVER (PARTITION BY k ORDER BY n) AS rank, dense_rank() OVER (PARTITION BY k ORDER BY n DESC) AS dense FROM wi_t;
CREATE MATERIALIZED VIEW wi_near AS SELECT id, lag(n) OVER (PARTITION BY k ORDER BY id) AS before, lead(n, 1, 0) OVER (PARTITION BY k ORDER BY id) AS after FROM wi_t;
CREATE MATERIALIZED VIEW wi_running AS SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total FROM wi_t;
CREATE MATERIALIZED VIEW wi_share AS SELECT id, n * 100 / sum(n) OVER (PARTITION BY k) AS percent, count(*) OVER () AS rows FROM wi_t;

-- + wi_t: 1 | a | 10
-- + wi_t: 2 | a | 30
-- + wi_t: 3 | b | 5
-- + wi_t: 4 | a | 10
-- - wi_t: 2 | a | 30
-- + wi_t: 5 | a | 20
-- ~ wi_t: 3 | b | 5 => 3 | b | 6

-- = wi_place: 1 | 1 | 2
-- = wi_place: 4 | 1 | 2
-- = wi_place: 5 | 3 | 1
-- = wi_place: 3 | 1 | 1
-- = wi_near: 1 | NULL | 10
-- = wi_near: 4 | 10 | 20
-- = wi_near: 5 | 10 | 0
-- = wi_near: 3 | NULL | 0
-- = wi_running: 1 | 10
-- = wi_running: 4 | 20
-- = wi_running: 5 | 40
-- = wi_running: 3 | 6
-- = wi_share: 1 | 25 | 4
-- = wi_share: 4 | 25 | 4
-- = wi_share: 5 | 50 | 4
-- = wi_share: 3 | 100 | 4
