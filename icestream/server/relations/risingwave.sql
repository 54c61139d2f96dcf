-- The relations of rw_catalog, as RisingWave's users query them.
TABLE rw_catalog.rw_databases (id int4, name varchar, owner int4, acl varchar[]);
TABLE rw_catalog.rw_schemas (id int4, name varchar, owner int4, acl varchar[]);
TABLE rw_catalog.rw_users (id int4, name varchar, is_super bool, create_db bool, create_user bool, can_login bool);
TABLE rw_catalog.rw_tables (id int4, name varchar, schema_id int4, owner int4, definition varchar, append_only bool,
    acl varchar[], created_at timestamptz);
TABLE rw_catalog.rw_materialized_views (id int4, name varchar, schema_id int4, owner int4, definition varchar,
    append_only bool, acl varchar[], created_at timestamptz);
TABLE rw_catalog.rw_views (id int4, name varchar, schema_id int4, owner int4, definition varchar, acl varchar[]);
TABLE rw_catalog.rw_sources (id int4, name varchar, schema_id int4, owner int4, connector varchar, columns varchar[],
    format varchar, row_encode varchar, append_only bool, connection_id int4, definition varchar, acl varchar[],
    created_at timestamptz);
TABLE rw_catalog.rw_sinks (id int4, name varchar, schema_id int4, owner int4, connector varchar, sink_type varchar,
    connection_id int4, definition varchar, acl varchar[], created_at timestamptz);
TABLE rw_catalog.rw_subscriptions (id int4, name varchar, schema_id int4, owner int4, definition varchar, acl varchar[],
    created_at timestamptz);
TABLE rw_catalog.rw_indexes (id int4, name varchar, primary_table_id int4, key_columns varchar[],
    include_columns varchar[], schema_id int4, owner int4, definition varchar, acl varchar[], created_at timestamptz);
TABLE rw_catalog.rw_connections (id int4, name varchar, schema_id int4, owner int4, type_ varchar, provider varchar,
    definition varchar, acl varchar[]);
TABLE rw_catalog.rw_secrets (id int4, name varchar, schema_id int4, owner int4, acl varchar[]);
TABLE rw_catalog.rw_relations (id int4, name varchar, relation_type varchar, schema_id int4, owner int4,
    definition varchar, acl varchar[]);
TABLE rw_catalog.rw_columns (relation_id int4, name varchar, position int4, is_hidden bool, is_primary_key bool,
    is_generated bool, is_nullable bool, generation_expression varchar, data_type varchar, type_oid int4, type_len int2,
    udt_type varchar);
TABLE rw_catalog.rw_depend (objid int4, refobjid int4);
TABLE rw_catalog.rw_functions (id int4, name varchar, schema_id int4, type varchar, arg_type_ids int4[],
    return_type_id int4);
TABLE rw_catalog.rw_ddl_progress (ddl_id int8, ddl_statement varchar, create_type varchar, progress varchar,
    initialized_at timestamptz);
TABLE rw_catalog.rw_event_logs (unique_id varchar, timestamp timestamptz, event_type varchar, info jsonb);
TABLE rw_catalog.rw_spark_fallbacks (kind varchar, reason varchar, count int8);
TABLE rw_catalog.rw_iceberg_snapshots (source_id int4, schema_name varchar, source_name varchar, sequence_number int8,
    snapshot_id int8, timestamp_ms timestamptz, manifest_list varchar, summary jsonb);
TABLE rw_catalog.rw_iceberg_files (source_id int4, schema_name varchar, source_name varchar, content varchar,
    file_path varchar, file_format varchar, record_count int8, file_size_in_bytes int8);
