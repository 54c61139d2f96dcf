CREATE TABLE lake.bench.q9 (
  id BIGINT,
  `itemName` STRING,
  description STRING,
  `initialBid` BIGINT,
  reserve BIGINT,
  `dateTime` TIMESTAMP(3),
  expires TIMESTAMP(3),
  seller BIGINT,
  category BIGINT,
  extra STRING,
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `bid_dateTime` TIMESTAMP(3),
  bid_extra STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');

INSERT INTO lake.bench.q9
SELECT
  id, `itemName`, description, `initialBid`, reserve, `dateTime`, expires, seller, category, extra,
  auction, bidder, price, `bid_dateTime`, bid_extra
FROM (
  SELECT
    a.*, b.auction, b.bidder, b.price, b.`dateTime` AS `bid_dateTime`, b.extra AS bid_extra,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime`) AS rownum
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction
  WHERE b.`dateTime` BETWEEN a.`dateTime` AND a.expires
)
WHERE rownum <= 1;
