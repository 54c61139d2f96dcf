-- System relations that are made from others.
VIEW pg_catalog.pg_user AS SELECT rolname, oid, rolcreatedb, rolsuper, rolreplication, rolbypassrls, rolpassword,
    rolvaliduntil, rolconfig FROM pg_catalog.pg_roles;
VIEW pg_catalog.pg_settings AS SELECT * FROM fn.pg_show_all_settings();
VIEW pg_catalog.pg_tables AS SELECT n.nspname, c.relname, fn.pg_get_userbyid(c.relowner), NULL, c.relhasindex, false, false, false
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';
VIEW pg_catalog.pg_views AS SELECT n.nspname, c.relname, fn.pg_get_userbyid(c.relowner), fn.pg_get_viewdef(c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v';
VIEW pg_catalog.pg_matviews AS SELECT n.nspname, c.relname, fn.pg_get_userbyid(c.relowner), NULL, c.relhasindex, c.relispopulated,
    fn.pg_get_viewdef(c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'm';
VIEW pg_catalog.pg_indexes AS SELECT n.nspname, c.relname, i.relname, NULL, fn.pg_get_indexdef(i.oid)
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
    JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
VIEW pg_catalog.pg_stat_user_tables AS SELECT c.oid, n.nspname, c.relname, 0, 0, 0, 0, 0, 0, 0, 0, greatest(c.reltuples, 0)::BIGINT,
    0, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND c.oid >= 16384;
VIEW pg_catalog.pg_stat_all_tables AS SELECT * FROM pg_catalog.pg_stat_user_tables;
VIEW pg_catalog.pg_timezone_names AS SELECT name, abbrev, utc_offset, is_dst FROM pg_timezone_names();

VIEW information_schema.information_schema_catalog_name AS SELECT fn.current_database();
VIEW information_schema.schemata AS SELECT fn.current_database(), nspname, fn.pg_get_userbyid(nspowner), NULL, NULL, NULL, NULL
    FROM pg_catalog.pg_namespace;
VIEW information_schema.tables AS SELECT fn.current_database(), n.nspname, c.relname,
    CASE c.relkind WHEN 'r' THEN 'BASE TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN' WHEN 'm' THEN 'MATERIALIZED VIEW' END,
    NULL, NULL, NULL, NULL, NULL, CASE c.relkind WHEN 'r' THEN 'YES' ELSE 'NO' END, 'NO', NULL
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'f', 'm');
VIEW information_schema.views AS SELECT fn.current_database(), n.nspname, c.relname, fn.pg_get_viewdef(c.oid),
    'NONE', 'NO', 'NO', 'NO', 'NO', 'NO'
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v';
VIEW information_schema.columns AS SELECT fn.current_database(), n.nspname, c.relname, a.attname, a.attnum::INTEGER,
    CASE WHEN a.attgenerated = '' THEN d.adbin END, CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END,
    CASE WHEN t.typcategory = 'A' AND t.typlen = -1 AND starts_with(t.typname, '_') THEN 'ARRAY' ELSE fn.name_of('regtype', t.oid) END,
    NULL, CASE WHEN t.oid IN (25, 1042, 1043) THEN 1073741824 END,
    CASE t.oid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
        WHEN 1700 THEN CASE WHEN a.atttypmod > 4 THEN (a.atttypmod - 4) >> 16 END END,
    CASE WHEN t.oid IN (20, 21, 23, 700, 701) THEN 2 WHEN t.oid = 1700 THEN 10 END,
    CASE WHEN t.oid IN (20, 21, 23) THEN 0 WHEN t.oid = 1700 AND a.atttypmod > 4 THEN (a.atttypmod - 4) & 65535 END,
    CASE WHEN t.oid = 1082 THEN 0 WHEN t.oid IN (1083, 1114, 1184, 1186, 1266) THEN 6 END,
    NULL, NULL, NULL, NULL, NULL,
    CASE WHEN t.oid = 19 THEN fn.current_database() END, CASE WHEN t.oid = 19 THEN 'pg_catalog' END, CASE WHEN t.oid = 19 THEN 'C' END,
    NULL, NULL, NULL, fn.current_database(), 'pg_catalog', t.typname, NULL, NULL, NULL, NULL, a.attnum::VARCHAR, 'NO', 'NO',
    NULL, NULL, NULL, NULL, NULL, 'NO', CASE WHEN a.attgenerated = '' THEN 'NEVER' ELSE 'ALWAYS' END,
    CASE WHEN a.attgenerated <> '' THEN d.adbin END, CASE c.relkind WHEN 'r' THEN 'YES' ELSE 'NO' END
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relkind IN ('r', 'v', 'f', 'm');
VIEW information_schema.table_constraints AS SELECT fn.current_database(), n.nspname, o.conname, fn.current_database(), n.nspname,
    c.relname, 'PRIMARY KEY', 'NO', 'NO', 'YES', NULL
    FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
VIEW information_schema.key_column_usage AS SELECT fn.current_database(), n.nspname, o.conname, fn.current_database(), n.nspname,
    c.relname, a.attname, list_position(o.conkey, a.attnum)::INTEGER, NULL
    FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND list_contains(o.conkey, a.attnum);
VIEW information_schema.constraint_column_usage AS SELECT fn.current_database(), n.nspname, c.relname, a.attname,
    fn.current_database(), n.nspname, o.conname
    FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND list_contains(o.conkey, a.attnum);
VIEW information_schema.constraint_table_usage AS SELECT fn.current_database(), n.nspname, c.relname, fn.current_database(),
    n.nspname, o.conname FROM pg_catalog.pg_constraint o JOIN pg_catalog.pg_class c ON c.oid = o.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
VIEW information_schema.table_privileges AS SELECT fn.current_user(), fn.current_user(), fn.current_database(), n.nspname, c.relname,
    p.privilege, 'YES', CASE p.privilege WHEN 'SELECT' THEN 'YES' ELSE 'NO' END
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS p(privilege) ON c.relkind = 'r' OR p.privilege = 'SELECT'
    WHERE c.relkind IN ('r', 'v', 'f', 'm');
VIEW information_schema.role_table_grants AS SELECT * FROM information_schema.table_privileges;
VIEW information_schema.character_sets AS SELECT NULL, NULL, 'UTF8', 'UCS', 'UTF8', fn.current_database(), 'pg_catalog', 'C';
VIEW information_schema.enabled_roles AS SELECT rolname FROM pg_catalog.pg_roles;
VIEW information_schema.applicable_roles AS SELECT rolname, rolname, 'YES' FROM pg_catalog.pg_roles WHERE false;
VIEW information_schema.collations AS SELECT fn.current_database(), 'pg_catalog', collname, 'NO PAD' FROM pg_catalog.pg_collation;
VIEW information_schema.foreign_tables AS SELECT fn.current_database(), n.nspname, c.relname, fn.current_database(), s.srvname
    FROM pg_catalog.pg_foreign_table f JOIN pg_catalog.pg_class c ON c.oid = f.ftrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver;
