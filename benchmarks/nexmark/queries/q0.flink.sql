CREATE TABLE lake.bench.q0 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  extra STRING
) WITH ('format-version' = '2');

INSERT INTO lake.bench.q0
SELECT auction, bidder, price, `dateTime`, extra
FROM bid;
