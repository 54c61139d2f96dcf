CREATE SOURCE clickstream_events (
user_id VARCHAR,
page_url VARCHAR,
action VARCHAR,
session_id VARCHAR,
event_time TIMESTAMPTZ
) WITH (
connector = 'kafka',
topic = 'web.clickstream',
properties.bootstrap.server = 'kafka-broker:9092',
scan.startup.mode = 'latest'
) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW hourly_page_metrics AS
SELECT
page_url,
date_trunc('hour', event_time) AS event_hour,
COUNT(*) AS total_events,
COUNT(DISTINCT user_id) AS unique_visitors,
COUNT(DISTINCT session_id) AS unique_sessions,
COUNT(*) FILTER (WHERE action = 'click') AS click_count,
COUNT(*) FILTER (WHERE action = 'scroll') AS scroll_count
FROM clickstream_events
GROUP BY page_url, date_trunc('hour', event_time);
CREATE SINK clickstream_to_iceberg FROM hourly_page_metrics
WITH (
connector = 'iceberg',
type = 'upsert',
primary_key = 'page_url, event_hour',
database.name = 'analytics',
table.name = 'hourly_page_metrics',
catalog.type = 'glue',
catalog.name = 'my_catalog',
warehouse.path = 's3://my-data-lake/warehouse',
s3.region = 'us-east-1',
s3.access.key = '${AWS_ACCESS_KEY}',
s3.secret.key = '${AWS_SECRET_KEY}',
create_table_if_not_exists = 'true'
);
-- In Trino
SELECT page_url, unique_visitors, click_count
FROM iceberg.analytics.hourly_page_metrics
WHERE event_hour >= current_timestamp - INTERVAL '24' HOUR
ORDER BY unique_visitors DESC
LIMIT 20;
-- Set up the Iceberg connection
CREATE CONNECTION iceberg_conn WITH (
type = 'iceberg',
warehouse.path = 's3://my-data-lake/warehouse',
catalog.type = 'glue',
catalog.name = 'my_catalog',
s3.region = 'us-east-1',
s3.access.key = '${AWS_ACCESS_KEY}',
s3.secret.key = '${AWS_SECRET_KEY}'
);
SET iceberg_engine_connection = 'public.iceberg_conn';
-- Create a CDC source
CREATE SOURCE pg_source WITH (
connector = 'postgres-cdc',
hostname = 'prod-db.internal',
port = '5432',
username = 'replication_user',
password = '${PG_PASSWORD}',
database.name = 'production'
);
-- Create an Iceberg-backed table from the CDC source
CREATE TABLE orders (
order_id INT PRIMARY KEY,
customer_id INT,
product_id INT,
quantity INT,
total_amount DECIMAL,
order_status VARCHAR,
created_at TIMESTAMPTZ,
updated_at TIMESTAMPTZ
)
FROM pg_source TABLE 'public.orders'
ENGINE = iceberg;
-- CDC source for customer data
CREATE TABLE customers (
customer_id INT PRIMARY KEY,
name VARCHAR,
email VARCHAR,
tier VARCHAR,
region VARCHAR
) WITH (
connector = 'postgres-cdc',
hostname = 'prod-db.internal',
port = '5432',
username = 'replication_user',
password = '${PG_PASSWORD}',
database.name = 'production',
table.name = 'public.customers'
);
-- Kafka source for order events
CREATE SOURCE order_events (
order_id INT,
customer_id INT,
product_id INT,
amount DECIMAL,
order_time TIMESTAMPTZ
) WITH (
connector = 'kafka',
topic = 'orders.placed',
properties.bootstrap.server = 'kafka-broker:9092',
scan.startup.mode = 'latest'
) FORMAT PLAIN ENCODE JSON;
-- Join and aggregate, then sink to Iceberg
CREATE MATERIALIZED VIEW orders_by_region AS
SELECT
c.region,
c.tier AS customer_tier,
date_trunc('hour', o.order_time) AS order_hour,
COUNT(*) AS order_count,
SUM(o.amount) AS total_revenue,
COUNT(DISTINCT o.customer_id) AS unique_customers
FROM order_events o
JOIN customers c ON o.customer_id = c.customer_id
GROUP BY c.region, c.tier, date_trunc('hour', o.order_time);
CREATE SINK regional_orders_to_iceberg FROM orders_by_region
WITH (
connector = 'iceberg',
type = 'upsert',
primary_key = 'region, customer_tier, order_hour',
database.name = 'analytics',
table.name = 'orders_by_region',
catalog.type = 'glue',
catalog.name = 'my_catalog',
warehouse.path = 's3://my-data-lake/warehouse',
s3.region = 'us-east-1',
s3.access.key = '${AWS_ACCESS_KEY}',
s3.secret.key = '${AWS_SECRET_KEY}',
create_table_if_not_exists = 'true'
);
