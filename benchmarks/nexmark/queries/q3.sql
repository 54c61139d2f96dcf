-- Local item suggestion: who sells in category 10 from OR, ID or CA. A join.

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

CREATE MATERIALIZED VIEW q3 AS
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');
