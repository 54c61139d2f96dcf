-- User sessions: bids of a user that are less than ten seconds apart.

CREATE SOURCE bid (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel VARCHAR,
  url VARCHAR,
  "dateTime" TIMESTAMP,
  extra VARCHAR
) WITH (
  connector = 'kafka',
  topic = 'nexmark-bid',
  properties.bootstrap.server = '${KAFKA}',
  scan.startup.mode = 'earliest'
) FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW q11 AS
SELECT bidder, count(*) AS bid_count, starttime, endtime
FROM (
  SELECT
    bidder,
    first_value("dateTime") OVER (
      PARTITION BY bidder ORDER BY "dateTime" SESSION WITH GAP INTERVAL '10' SECOND
    ) AS starttime,
    last_value("dateTime") OVER (
      PARTITION BY bidder ORDER BY "dateTime" SESSION WITH GAP INTERVAL '10' SECOND
    ) + INTERVAL '10' SECOND AS endtime
  FROM bid
) AS in_session
GROUP BY bidder, starttime, endtime;
