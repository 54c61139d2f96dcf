-- The best of each group and of all; rows that fall out come back when better ones go.
CREATE TABLE tn_score (id INT PRIMARY KEY, team VARCHAR, points INT);
CREATE TABLE tn_log (team VARCHAR, points INT);
CREATE MATERIALIZED VIEW tn_best AS
  SELECT team, id, points FROM (SELECT *, row_number() OVER (PARTITION BY team ORDER BY points DESC, id) AS place FROM tn_score) s WHERE place <= 2;
CREATE MATERIALIZED VIEW tn_first AS SELECT id, points FROM tn_score ORDER BY points DESC, id LIMIT 2;
CREATE MATERIALIZED VIEW tn_later AS SELECT id FROM tn_score ORDER BY points DESC, id LIMIT 1 OFFSET 2;
CREATE MATERIALIZED VIEW tn_ties AS SELECT id FROM (SELECT id, rank() OVER (ORDER BY points DESC) AS place FROM tn_score) s WHERE place = 1;
CREATE MATERIALIZED VIEW tn_growing AS
  SELECT team, points FROM (SELECT team, points, row_number() OVER (PARTITION BY team ORDER BY points DESC) AS place FROM tn_log) s WHERE place <= 2;

-- + tn_score: 1 | red | 5
-- + tn_score: 2 | red | 7
-- + tn_score: 3 | red | 7
-- + tn_log: red | 3
-- + tn_log: red | 5
-- + tn_score: 4 | blue | 7
-- + tn_log: red | 4
-- - tn_score: 2 | red | 7
-- + tn_log: blue | 1
-- ~ tn_score: 4 | blue | 7 => 4 | blue | 1
-- + tn_log: red | 5

-- = tn_best: red | 3 | 7
-- = tn_best: red | 1 | 5
-- = tn_best: blue | 4 | 1
-- = tn_first: 3 | 7
-- = tn_first: 1 | 5
-- = tn_later: 4
-- = tn_ties: 3
-- = tn_growing: red | 5
-- = tn_growing: red | 5
-- = tn_growing: blue | 1
