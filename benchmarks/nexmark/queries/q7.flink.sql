CREATE TABLE lake.bench.q7 (
  auction BIGINT,
  price BIGINT,
  bidder BIGINT,
  `dateTime` TIMESTAMP(3),
  extra STRING
) WITH ('format-version' = '2');

INSERT INTO lake.bench.q7
SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS maxprice, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS highest
ON b.price = highest.maxprice
WHERE b.`dateTime` BETWEEN highest.endtime - INTERVAL '10' SECOND AND highest.endtime;
