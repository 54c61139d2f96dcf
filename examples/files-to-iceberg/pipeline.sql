-- Sales in CSV files and returns in JSON files, into one partitioned Iceberg table.
-- DATA is the directory that holds them: export DATA=$PWD/examples/files-to-iceberg/data

CREATE SOURCE sales (
  sale_id BIGINT NOT NULL,
  shop VARCHAR NOT NULL,
  amount NUMERIC(10, 2),
  sold_at TIMESTAMPTZ
)
INCLUDE file AS source_file
WITH (
  connector = 'file',
  path = '${DATA}',
  match_pattern = 'sales/*.csv'
) FORMAT PLAIN ENCODE CSV (delimiter = ';');

CREATE SOURCE returns (
  sale_id BIGINT NOT NULL,
  refund NUMERIC(10, 2),
  returned STRUCT<shop VARCHAR, at TIMESTAMPTZ>
)
INCLUDE file AS source_file
WITH (
  connector = 'file',
  path = '${DATA}',
  match_pattern = 'returns/*.json'
) FORMAT PLAIN ENCODE JSON;

CREATE VIEW movements AS
SELECT sale_id, 'sale' AS kind, shop, amount, sold_at AS at, source_file FROM sales
UNION ALL
SELECT sale_id, 'return', (returned).shop, -refund, (returned).at, source_file FROM returns;

CREATE SINK movements_to_lake FROM movements WITH (
  connector = 'iceberg',
  type = 'append-only',
  database.name = 'shops',
  table.name = 'movements',
  partition_by = 'day(at), shop',
  order_key = 'at',
  create_table_if_not_exists = 'true'
);
