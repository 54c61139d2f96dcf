-- Sessions that grow, fall apart and become one; a row at the gap begins the next.
CREATE TABLE se_t (id INT PRIMARY KEY, who INT, at TIMESTAMP, n INT);
CREATE MATERIALIZED VIEW se_rows AS SELECT id, first_value(at) OVER w AS first, last_value(at) OVER w AS last, sum(n) OVER w AS n FROM se_t WINDOW w AS (PARTITION BY who ORDER BY at SESSION WITH GAP INTERVAL '5 minutes');
CREATE MATERIALIZED VIEW se_each AS SELECT who, window_start, window_end, count(*) AS rows FROM session(se_t PARTITION BY who, at, INTERVAL '5 minutes') GROUP BY who, window_start, window_end;
CREATE MATERIALIZED VIEW se_all AS SELECT window_start, window_end, count(*) AS rows FROM session(se_t, at, INTERVAL '5 minutes') GROUP BY window_start, window_end;

-- + se_t: 1 | 1 | 2024-01-01 10:00:00 | 1
-- + se_t: 2 | 1 | 2024-01-01 10:08:00 | 2
-- + se_t: 3 | 1 | 2024-01-01 10:04:00 | 4
-- + se_t: 4 | 2 | 2024-01-01 10:08:00 | 8
-- + se_t: 5 | 2 | 2024-01-01 10:13:00 | 16
-- + se_t: 6 | 2 | NULL | 32
-- + se_t: 7 | 1 | 2024-01-01 10:20:00 | 64
-- + se_t: 8 | 1 | 2024-01-01 10:24:59 | 128
-- ~ se_t: 3 | 1 | 2024-01-01 10:04:00 | 4 => 3 | 1 | 2024-01-01 10:02:00 | 4
-- - se_t: 7 | 1 | 2024-01-01 10:20:00 | 64
-- + se_t: 9 | 1 | 2024-01-01 10:02:00 | 256

-- = se_rows: 1 | 2024-01-01 10:00:00 | 2024-01-01 10:02:00 | 261
-- = se_rows: 3 | 2024-01-01 10:00:00 | 2024-01-01 10:02:00 | 261
-- = se_rows: 9 | 2024-01-01 10:00:00 | 2024-01-01 10:02:00 | 261
-- = se_rows: 2 | 2024-01-01 10:08:00 | 2024-01-01 10:08:00 | 2
-- = se_rows: 8 | 2024-01-01 10:24:59 | 2024-01-01 10:24:59 | 128
-- = se_rows: 4 | 2024-01-01 10:08:00 | 2024-01-01 10:08:00 | 8
-- = se_rows: 5 | 2024-01-01 10:13:00 | 2024-01-01 10:13:00 | 16
-- = se_rows: 6 | NULL | NULL | 32
-- = se_each: 1 | 2024-01-01 10:00:00 | 2024-01-01 10:07:00 | 3
-- = se_each: 1 | 2024-01-01 10:08:00 | 2024-01-01 10:13:00 | 1
-- = se_each: 1 | 2024-01-01 10:24:59 | 2024-01-01 10:29:59 | 1
-- = se_each: 2 | 2024-01-01 10:08:00 | 2024-01-01 10:13:00 | 1
-- = se_each: 2 | 2024-01-01 10:13:00 | 2024-01-01 10:18:00 | 1
-- = se_each: 2 | NULL | NULL | 1
-- = se_all: 2024-01-01 10:00:00 | 2024-01-01 10:07:00 | 3
-- = se_all: 2024-01-01 10:08:00 | 2024-01-01 10:13:00 | 2
-- = se_all: 2024-01-01 10:13:00 | 2024-01-01 10:18:00 | 1
-- = se_all: 2024-01-01 10:24:59 | 2024-01-01 10:29:59 | 1
-- = se_all: NULL | NULL | 1
