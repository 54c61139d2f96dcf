-- Time windows over rows that come late, change their time and go.
CREATE TABLE tw_t (id INT PRIMARY KEY, at TIMESTAMP, n INT);
CREATE MATERIALIZED VIEW tw_tumble AS SELECT window_start, count(*) AS rows, sum(n) AS n FROM tumble(tw_t, at, INTERVAL '5 minutes') GROUP BY window_start;
CREATE MATERIALIZED VIEW tw_hop AS SELECT window_start, window_end, count(*) AS rows FROM hop(tw_t, at, INTERVAL '5 minutes', INTERVAL '10 minutes') GROUP BY window_start, window_end;
CREATE MATERIALIZED VIEW tw_rows AS SELECT id, window_end FROM tumble(tw_t, at, INTERVAL '1 hour') WHERE n > 1;

-- + tw_t: 1 | 2024-01-01 10:00:00 | 1
-- + tw_t: 2 | 2024-01-01 10:04:59 | 2
-- + tw_t: 3 | 2024-01-01 10:07:00 | 4
-- + tw_t: 4 | NULL | 8
-- ~ tw_t: 3 | 2024-01-01 10:07:00 | 4 => 3 | 2024-01-01 10:03:00 | 4
-- - tw_t: 1 | 2024-01-01 10:00:00 | 1
-- + tw_t: 5 | 2024-01-01 09:59:59 | 16

-- = tw_tumble: 2024-01-01 10:00:00 | 2 | 6
-- = tw_tumble: 2024-01-01 09:55:00 | 1 | 16
-- = tw_tumble: NULL | 1 | 8
-- = tw_hop: 2024-01-01 09:50:00 | 2024-01-01 10:00:00 | 1
-- = tw_hop: 2024-01-01 09:55:00 | 2024-01-01 10:05:00 | 3
-- = tw_hop: 2024-01-01 10:00:00 | 2024-01-01 10:10:00 | 2
-- = tw_rows: 2 | 2024-01-01 11:00:00
-- = tw_rows: 3 | 2024-01-01 11:00:00
-- = tw_rows: 5 | 2024-01-01 10:00:00
-- = tw_rows: 4 | NULL
