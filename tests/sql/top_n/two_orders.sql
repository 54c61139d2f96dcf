-- Two ranks with different orders over rows that only come: a row that the one leaves out still counts in the other.
CREATE TABLE tno_rows (g INT, v INT, x INT);
CREATE MATERIALIZED VIEW tno_best AS
SELECT g, v, x, a, b FROM (
    SELECT *, rank() OVER (PARTITION BY g ORDER BY v) AS a, rank() OVER (PARTITION BY g ORDER BY x DESC) AS b FROM tno_rows
) AS r WHERE a <= 1;
CREATE MATERIALIZED VIEW tno_longer AS
SELECT g, v, x, a, b FROM (
    SELECT *, row_number() OVER (PARTITION BY g ORDER BY v, x) AS a, rank() OVER (PARTITION BY g ORDER BY v) AS b FROM tno_rows
) AS r WHERE a <= 2;
-- + tno_rows: 1 | 1 | 10
-- + tno_rows: 1 | 2 | 30
-- + tno_rows: 2 | 5 | 50
-- + tno_rows: 2 | 6 | 60
-- + tno_rows: 1 | 1 | 20
-- + tno_rows: 2 | 4 | 10
-- = tno_best: 1 | 1 | 10 | 1 | 3
-- = tno_best: 1 | 1 | 20 | 1 | 2
-- = tno_best: 2 | 4 | 10 | 1 | 3
-- = tno_longer: 1 | 1 | 10 | 1 | 1
-- = tno_longer: 1 | 1 | 20 | 2 | 1
-- = tno_longer: 2 | 4 | 10 | 1 | 1
-- = tno_longer: 2 | 5 | 50 | 2 | 2
