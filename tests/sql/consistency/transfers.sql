-- Money that only moves: credits, debits and balances are of one epoch, so that their total is 0 after each.
CREATE TABLE co_transfer (id INT PRIMARY KEY, source INT, target INT, amount NUMERIC);
CREATE MATERIALIZED VIEW co_credits AS SELECT target AS account, sum(amount) AS amount FROM co_transfer GROUP BY target;
CREATE MATERIALIZED VIEW co_debits AS SELECT source AS account, sum(amount) AS amount FROM co_transfer GROUP BY source;
CREATE MATERIALIZED VIEW co_balance AS
  SELECT coalesce(c.account, d.account) AS account, coalesce(c.amount, 0) - coalesce(d.amount, 0) AS amount
  FROM co_credits c FULL JOIN co_debits d ON c.account = d.account;
CREATE MATERIALIZED VIEW co_total AS SELECT coalesce(sum(amount), 0) AS amount FROM co_balance;

-- + co_transfer: 1 | 1 | 2 | 10
-- + co_transfer: 2 | 2 | 3 | 4.5
-- + co_transfer: 3 | 3 | 1 | 1
-- ~ co_transfer: 1 | 1 | 2 | 10 => 1 | 1 | 3 | 12
-- - co_transfer: 2 | 2 | 3 | 4.5
-- + co_transfer: 4 | 4 | 4 | 7
-- + co_transfer: 5 | 2 | 1 | 0.25

-- ! co_total: 0
-- = co_total: 0
-- = co_credits: 3 | 12
-- = co_credits: 1 | 1.25
-- = co_credits: 4 | 7
-- = co_debits: 1 | 12
-- = co_debits: 3 | 1
-- = co_debits: 4 | 7
-- = co_debits: 2 | 0.25
-- = co_balance: 1 | -10.75
-- = co_balance: 2 | -0.25
-- = co_balance: 3 | 11
-- = co_balance: 4 | 0
