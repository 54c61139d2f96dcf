-- ASOF joins: the nearest row comes, goes and is overtaken; without a match an outer join keeps the row.
CREATE TABLE as_l (id INT PRIMARY KEY, who INT, at TIMESTAMP);
CREATE TABLE as_r (who INT, at TIMESTAMP, price INT);
CREATE MATERIALIZED VIEW as_last AS SELECT l.id, r.price FROM as_l l ASOF JOIN as_r r ON l.who = r.who AND l.at >= r.at;
CREATE MATERIALIZED VIEW as_before AS SELECT l.id, r.price FROM as_l l ASOF LEFT JOIN as_r r ON l.who = r.who AND l.at > r.at;
CREATE MATERIALIZED VIEW as_next AS SELECT l.id, r.at, r.price FROM as_l l ASOF LEFT JOIN as_r r ON l.who = r.who AND l.at <= r.at;

-- + as_l: 1 | 1 | 2024-01-01 10:00:00
-- + as_r: 1 | 2024-01-01 09:00:00 | 9
-- + as_r: 1 | 2024-01-01 10:00:00 | 10
-- + as_l: 2 | 1 | 2024-01-01 10:30:00
-- + as_l: 3 | 2 | 2024-01-01 10:30:00
-- + as_l: 4 | NULL | 2024-01-01 10:30:00
-- + as_r: 1 | 2024-01-01 10:20:00 | 20
-- + as_r: 2 | 2024-01-01 11:00:00 | 11
-- + as_r: 2 | 2024-01-01 11:00:00 | 12
-- + as_r: NULL | 2024-01-01 10:00:00 | 99
-- + as_r: 2 | NULL | 98
-- ~ as_l: 3 | 2 | 2024-01-01 10:30:00 => 3 | 2 | 2024-01-01 11:00:00

-- = as_last: 1 | 10
-- = as_last: 2 | 20
-- = as_last: 3 | 11
-- = as_before: 1 | 9
-- = as_before: 2 | 20
-- = as_before: 3 | NULL
-- = as_before: 4 | NULL
-- = as_next: 1 | 2024-01-01 10:00:00 | 10
-- = as_next: 2 | NULL | NULL
-- = as_next: 3 | 2024-01-01 11:00:00 | 11
-- = as_next: 4 | NULL | NULL
