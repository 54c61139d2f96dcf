-- The orders of a shop's database, as Debezium's PostgreSQL connector sends their changes to Kafka: one row an order, as it is now.
CREATE TABLE orders (
  order_id INT PRIMARY KEY,
  customer VARCHAR,
  status VARCHAR,
  amount NUMERIC(12, 2),
  updated_at TIMESTAMPTZ
)
INCLUDE source 'lsn' BIGINT AS lsn
WITH (
  connector = 'kafka',
  topic = 'shop.public.orders',
  properties.bootstrap.server = '${KAFKA}'
) FORMAT DEBEZIUM ENCODE JSON;

-- What is still to be shipped. An order that is shipped, cancelled or deleted leaves the table.
CREATE SINK open_orders AS
SELECT order_id, customer, amount, updated_at FROM orders WHERE status IN ('new', 'paid')
WITH (
  connector = 'iceberg',
  type = 'upsert',
  primary_key = 'order_id',
  database.name = 'shop',
  table.name = 'open_orders',
  create_table_if_not_exists = 'true',
  partition_by = 'bucket(4, order_id)',
  commit_checkpoint_interval = 5
);

-- The last known address of each customer: an upsert topic, where a newer message replaces an older one, and an empty one deletes.
CREATE TABLE addresses (
  customer VARCHAR,
  address VARCHAR,
  version BIGINT,
  PRIMARY KEY (customer)
) WITH VERSION COLUMN (version)
WITH (
  connector = 'kafka',
  topic = 'shop.addresses',
  properties.bootstrap.server = '${KAFKA}'
) FORMAT UPSERT ENCODE JSON;
