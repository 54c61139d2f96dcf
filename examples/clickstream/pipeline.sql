-- Clickstream events from Kafka into an Iceberg table, exactly once.
-- KAFKA is the broker's address: icestream dev kafka prints one, make demo starts its own.

CREATE SOURCE clickstream_events (
  user_id VARCHAR,
  page_url VARCHAR,
  action VARCHAR,
  session_id VARCHAR,
  event_time TIMESTAMPTZ
) WITH (
  connector = 'kafka',
  topic = 'web.clickstream',
  properties.bootstrap.server = '${KAFKA}',
  scan.startup.mode = 'latest'
) FORMAT PLAIN ENCODE JSON;

CREATE SINK clickstream_to_iceberg AS
SELECT
  page_url,
  split_part(page_url, '/', 4) AS section,
  action,
  user_id,
  session_id,
  event_time,
  date_trunc('hour', event_time) AS event_hour
FROM clickstream_events
WHERE action <> 'heartbeat'
WITH (
  connector = 'iceberg',
  type = 'append-only',
  database.name = 'analytics',
  table.name = 'page_events',
  partition_by = 'day(event_time)',
  commit_checkpoint_interval = 2,
  create_table_if_not_exists = 'true'
);
