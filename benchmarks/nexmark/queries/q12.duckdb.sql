-- In which windows bids fall is up to the clock. What is determined: every bid is counted once,
-- windows are ten seconds long and begin at whole tens, and (bidder, window) is a key.

SELECT bidder, count(*) AS bid_count, true AS regular
FROM bid
GROUP BY bidder;

SELECT
  bidder, sum(bid_count) AS bid_count,
  bool_and(endtime - starttime = INTERVAL '10 seconds' AND epoch_ms(starttime) % 10000 = 0)
    AND count(*) = count(DISTINCT starttime) AS regular
FROM result
GROUP BY bidder;
