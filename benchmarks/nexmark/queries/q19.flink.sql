CREATE TABLE lake.bench.q19 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel STRING,
  url STRING,
  `dateTime` TIMESTAMP(3),
  extra STRING,
  rank_number BIGINT,
  PRIMARY KEY (auction, rank_number) NOT ENFORCED
) WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');

INSERT INTO lake.bench.q19
SELECT auction, bidder, price, channel, url, `dateTime`, extra, rank_number
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid
)
WHERE rank_number <= 10;
