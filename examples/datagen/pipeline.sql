-- Made-up sensor readings into two Iceberg tables. Needs no broker and no files.

CREATE SOURCE readings (
  reading_id BIGINT,
  device_id INT,
  temperature DOUBLE PRECISION,
  tags VARCHAR[],
  at TIMESTAMPTZ,
  fahrenheit DOUBLE PRECISION AS temperature * 9 / 5 + 32
) WITH (
  connector = 'datagen',
  rows = 10000,
  fields.reading_id.kind = 'sequence',
  fields.reading_id.start = 1,
  fields.device_id.min = 1,
  fields.device_id.max = 20,
  fields.temperature.min = -20,
  fields.temperature.max = 45,
  fields.tags.length = 2,
  fields.at.max_past = '1 hour'
);

-- Kept by the engine, as public.hot_readings of the lake.
CREATE MATERIALIZED VIEW hot_readings AS
SELECT reading_id, device_id, round(temperature::numeric, 1) AS temperature, at
FROM readings
WHERE temperature > 40;

-- Delivered to a table of your own; one row a tag.
CREATE SINK tags_to_lake AS
SELECT reading_id, unnest(tags) AS tag, date_trunc('hour', at) AS hour
FROM readings
WITH (
  connector = 'iceberg',
  type = 'append-only',
  database.name = 'sensors',
  table.name = 'tags',
  partition_by = 'bucket(4, tag)',
  create_table_if_not_exists = 'true'
);
