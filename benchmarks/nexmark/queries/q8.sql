-- Monitor new users: who came and opened an auction within the same ten seconds.

CREATE SOURCE person (
  id BIGINT,
  name VARCHAR,
  "emailAddress" VARCHAR,
  "creditCard" VARCHAR,
  city VARCHAR,
  state VARCHAR,
  "dateTime" TIMESTAMP,
  extra VARCHAR
) WITH (
  connector = 'kafka',
  topic = 'nexmark-person',
  properties.bootstrap.server = '${KAFKA}',
  scan.startup.mode = 'earliest'
) FORMAT PLAIN ENCODE JSON;

CREATE SOURCE auction (
  id BIGINT,
  "itemName" VARCHAR,
  description VARCHAR,
  "initialBid" BIGINT,
  reserve BIGINT,
  "dateTime" TIMESTAMP,
  expires TIMESTAMP,
  seller BIGINT,
  category BIGINT,
  extra VARCHAR
) WITH (
  connector = 'kafka',
  topic = 'nexmark-auction',
  properties.bootstrap.server = '${KAFKA}',
  scan.startup.mode = 'earliest'
) FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW q8 AS
SELECT p.id, p.name, p.starttime
FROM (
  SELECT id, name, window_start AS starttime, window_end AS endtime
  FROM TUMBLE(person, "dateTime", INTERVAL '10' SECOND)
  GROUP BY id, name, window_start, window_end
) AS p
JOIN (
  SELECT seller, window_start AS starttime, window_end AS endtime
  FROM TUMBLE(auction, "dateTime", INTERVAL '10' SECOND)
  GROUP BY seller, window_start, window_end
) AS a
ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime;
