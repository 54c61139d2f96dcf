-- What JDBC drivers, database tools and dashboards ask, each in its shape but in our words. `-- name` starts a query;
-- rows of those marked * must be those of PostgreSQL.

-- jdbc: tables *
SELECT current_database() AS "TABLE_CAT", ns.nspname AS "TABLE_SCHEM", rel.relname AS "TABLE_NAME",
  CASE ns.nspname ~ '^pg_' OR ns.nspname = 'information_schema' WHEN true THEN
    CASE WHEN ns.nspname IN ('pg_catalog', 'information_schema') THEN
      CASE rel.relkind WHEN 'r' THEN 'SYSTEM TABLE' WHEN 'v' THEN 'SYSTEM VIEW' ELSE NULL END ELSE NULL END
  WHEN false THEN
    CASE rel.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
      WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'i' THEN 'INDEX' ELSE NULL END
  ELSE NULL END AS "TABLE_TYPE", des.description AS "REMARKS", '' AS "TYPE_CAT"
FROM pg_catalog.pg_namespace ns, pg_catalog.pg_class rel
LEFT JOIN pg_catalog.pg_description des ON (rel.oid = des.objoid AND des.objsubid = 0 AND des.classoid = 'pg_class'::regclass)
WHERE rel.relnamespace = ns.oid AND ns.nspname LIKE 'publi_' AND rel.relname LIKE '%' AND (false
  OR (rel.relkind = 'r' AND ns.nspname !~ '^pg_' AND ns.nspname <> 'information_schema') OR (rel.relkind = 'm'))
ORDER BY "TABLE_TYPE", "TABLE_SCHEM", "TABLE_NAME"

-- jdbc: columns *
SELECT * FROM (SELECT current_database() AS current_database, ns.nspname, rel.relname, att.attname, att.atttypid,
    att.attnotnull OR (typ.typtype = 'd' AND typ.typnotnull) AS attnotnull, att.atttypmod, att.attlen, typ.typtypmod,
    row_number() OVER (PARTITION BY att.attrelid ORDER BY att.attnum) AS attnum,
    nullif(att.attidentity, '') AS attidentity, nullif(att.attgenerated, '') AS attgenerated,
    pg_catalog.pg_get_expr(dft.adbin, dft.adrelid) AS adsrc, des.description, typ.typbasetype, typ.typtype
  FROM pg_catalog.pg_namespace ns
  JOIN pg_catalog.pg_class rel ON (rel.relnamespace = ns.oid)
  JOIN pg_catalog.pg_attribute att ON (att.attrelid = rel.oid)
  JOIN pg_catalog.pg_type typ ON (att.atttypid = typ.oid)
  LEFT JOIN pg_catalog.pg_attrdef dft ON (att.attrelid = dft.adrelid AND att.attnum = dft.adnum)
  LEFT JOIN pg_catalog.pg_description des ON (rel.oid = des.objoid AND att.attnum = des.objsubid)
  LEFT JOIN pg_catalog.pg_class dc ON (dc.oid = des.classoid AND dc.relname = 'pg_class')
  WHERE rel.relkind IN ('r', 'p', 'v', 'f', 'm') AND att.attnum > 0 AND NOT att.attisdropped
    AND ns.nspname LIKE 'public' AND rel.relname LIKE 'visits') cols
WHERE true ORDER BY nspname, relname, attnum

-- jdbc: primary keys *
SELECT r.TABLE_CAT AS "TABLE_CAT", r.TABLE_SCHEM AS "TABLE_SCHEM", r.TABLE_NAME AS "TABLE_NAME",
  r.COLUMN_NAME AS "COLUMN_NAME", r.KEY_SEQ AS "KEY_SEQ", r.PK_NAME AS "PK_NAME"
FROM (SELECT current_database() AS TABLE_CAT, ns.nspname AS TABLE_SCHEM, rel.relname AS TABLE_NAME, att.attname AS COLUMN_NAME,
    (information_schema._pg_expandarray(con.conkey)).n AS KEY_SEQ, con.conname AS PK_NAME,
    information_schema._pg_expandarray(con.conkey) AS KEYS, att.attnum AS A_ATTNUM
  FROM pg_catalog.pg_constraint con
  JOIN pg_catalog.pg_class rel ON (con.conrelid = rel.oid) JOIN pg_catalog.pg_namespace ns ON (rel.relnamespace = ns.oid)
  JOIN pg_catalog.pg_attribute att ON (att.attrelid = rel.oid)
  WHERE con.contype = 'p' AND ns.nspname = 'public' AND rel.relname = 'lines') r
WHERE r.A_ATTNUM = (r.KEYS).x ORDER BY r.TABLE_NAME, r.PK_NAME, r.KEY_SEQ

-- jdbc: best row identifier *
SELECT att.attname, att.atttypid, atttypmod FROM pg_catalog.pg_class rel
JOIN pg_catalog.pg_attribute att ON (rel.oid = att.attrelid)
JOIN (SELECT i.indexrelid, i.indrelid, i.indisprimary, information_schema._pg_expandarray(i.indkey) AS keys
  FROM pg_catalog.pg_index i) i ON (att.attnum = (i.keys).x AND att.attrelid = i.indrelid)
WHERE true AND rel.relname = 'lines' AND i.indisprimary ORDER BY att.attnum

-- jdbc: index info *
SELECT tmp.TABLE_NAME AS "TABLE_NAME", tmp.NON_UNIQUE AS "NON_UNIQUE", tmp.INDEX_NAME AS "INDEX_NAME", tmp.TYPE AS "TYPE",
  tmp.ORDINAL_POSITION AS "ORDINAL_POSITION",
  trim(both '"' from pg_catalog.pg_get_indexdef(tmp.CI_OID, tmp.ORDINAL_POSITION, false)) AS "COLUMN_NAME",
  CASE tmp.AM_NAME WHEN 'btree' THEN CASE tmp.I_INDOPTION[tmp.ORDINAL_POSITION - 1] & 1::smallint WHEN 1 THEN 'D' ELSE 'A' END
    ELSE NULL END AS "ASC_OR_DESC", tmp.FILTER_CONDITION AS "FILTER_CONDITION"
FROM (SELECT rel.relname AS TABLE_NAME, NOT i.indisunique AS NON_UNIQUE, ci.relname AS INDEX_NAME,
    CASE i.indisclustered WHEN true THEN 1 ELSE CASE am.amname WHEN 'hash' THEN 2 ELSE 3 END END AS TYPE,
    (information_schema._pg_expandarray(i.indkey)).n AS ORDINAL_POSITION, ci.oid AS CI_OID, i.indoption AS I_INDOPTION,
    am.amname AS AM_NAME, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS FILTER_CONDITION
  FROM pg_catalog.pg_class rel JOIN pg_catalog.pg_namespace ns ON (rel.relnamespace = ns.oid)
  JOIN pg_catalog.pg_index i ON (rel.oid = i.indrelid) JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid)
  JOIN pg_catalog.pg_am am ON (ci.relam = am.oid) LEFT JOIN pg_catalog.pg_description des ON (ci.oid = des.objoid)
  WHERE true AND ns.nspname = 'public' AND rel.relname = 'orders') AS tmp
ORDER BY "NON_UNIQUE", "TYPE", "INDEX_NAME", "ORDINAL_POSITION"

-- jdbc: imported keys *
SELECT current_database() AS "PKTABLE_CAT", pkc.relname AS "PKTABLE_NAME", pos.n AS "KEY_SEQ",
  CASE con.confupdtype WHEN 'c' THEN 0 WHEN 'n' THEN 2 ELSE NULL END AS "UPDATE_RULE", con.conname AS "FK_NAME"
FROM pg_catalog.pg_class pkc, pg_catalog.pg_class fkc, pg_catalog.pg_constraint con, pg_catalog.generate_series(1, 32) pos(n),
  pg_catalog.pg_attribute fka
WHERE con.conrelid = fkc.oid AND con.contype = 'f' AND con.confrelid = pkc.oid AND fka.attnum = con.conkey[pos.n]
  AND fka.attrelid = fkc.oid ORDER BY pkc.relname, con.conname, pos.n

-- jdbc: schemas
SELECT nspname AS "TABLE_SCHEM", current_database() AS "TABLE_CATALOG" FROM pg_catalog.pg_namespace
WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1])
  AND (nspname !~ '^pg_toast_temp_' OR nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_'))
ORDER BY "TABLE_SCHEM"

-- jdbc: type by name *
SELECT pg_type.oid, typname FROM pg_catalog.pg_type
LEFT JOIN (SELECT ns.oid AS nspoid, ns.nspname, r.r FROM pg_namespace AS ns
  JOIN (SELECT s.r, (current_schemas(false))[s.r] AS nspname FROM generate_series(1, array_upper(current_schemas(false), 1)) AS s(r)) AS r
  USING (nspname)) AS sp ON sp.nspoid = typnamespace
WHERE typname = 'numeric' ORDER BY sp.r, pg_type.oid DESC LIMIT 1

-- jdbc: kinds of types *
SELECT typinput = 'pg_catalog.array_in'::regproc AS is_array, typtype, typname, pg_type.oid FROM pg_catalog.pg_type
WHERE typname IN ('int4', '_int4', 'jsonb') ORDER BY pg_type.oid

-- jdbc: array of a type *
SELECT t.typarray, arr.typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid
JOIN pg_catalog.pg_type arr ON arr.oid = t.typarray
WHERE t.typname = 'int4' AND (n.nspname = 'x' OR true AND n.nspname = ANY (current_schemas(true))) ORDER BY t.oid DESC LIMIT 1

-- jdbc: a type's element *
SELECT e.oid, n.nspname = ANY(current_schemas(true)), n.nspname, e.typname FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_type e ON t.typelem = e.oid JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 1007

-- jdbc: result metadata *
SELECT c.oid, a.attnum, a.attname, c.relname, n.nspname, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull),
  a.attidentity != '' OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%'
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON (c.relnamespace = n.oid)
JOIN pg_catalog.pg_attribute a ON (c.oid = a.attrelid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)
LEFT JOIN pg_catalog.pg_attrdef d ON (d.adrelid = a.attrelid AND d.adnum = a.attnum)
JOIN (SELECT 16386 AS oid, 1 AS attnum UNION ALL SELECT 16386, 2) vals ON (c.oid = vals.oid AND a.attnum = vals.attnum)
ORDER BY 2

-- jdbc: keywords
SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{select,from,where}'::text[])

-- jdbc: limits *
SELECT t.typlen FROM pg_catalog.pg_type t, pg_catalog.pg_namespace n WHERE t.typnamespace = n.oid AND t.typname = 'name' AND n.nspname = 'pg_catalog'

-- jdbc: functions
SELECT current_database() AS "FUNCTION_CAT", n.nspname AS "FUNCTION_SCHEM", p.proname AS "FUNCTION_NAME", d.description AS "REMARKS",
  CASE WHEN (format_type(p.prorettype, null) = 'unknown') THEN 0 WHEN (substring(pg_get_function_result(p.oid) from 0 for 6) = 'TABLE') THEN 2 ELSE 1 END AS "FUNCTION_TYPE",
  p.proname || '_' || p.oid AS "SPECIFIC_NAME"
FROM pg_catalog.pg_proc p INNER JOIN pg_catalog.pg_namespace n ON p.pronamespace = n.oid
LEFT JOIN pg_catalog.pg_description d ON p.oid = d.objoid WHERE true AND p.prokind = 'f' ORDER BY 2, 3, p.oid::text

-- dbeaver: databases
SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate OR db.datname = 'dev' ORDER BY db.datname

-- dbeaver: session *
SELECT current_schema(), session_user

-- dbeaver: schemas
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname

-- dbeaver: types
SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')

-- dbeaver: tables
SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr, pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')

-- dbeaver: columns
SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid
FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'c') AND c.oid = 16386 ORDER BY a.attnum

-- dbeaver: constraints
SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description,
  CASE WHEN c.contype = 'c' THEN "substring"(pg_get_constraintdef(c.oid), 7) ELSE NULL END consrc_copy
FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
WHERE c.conrelid = 16386 ORDER BY c.oid

-- dbeaver: indexes
SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname AS tabrelname, dsc.description,
  pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr, pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr,
  pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size, pg_catalog.pg_stat_get_numscans(i.indexrelid) AS index_num_scans
FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid WHERE i.indrelid = 16386 ORDER BY tabrelname, c.relname

-- dbeaver: sizes *
SELECT sum(pg_total_relation_size(c.oid)) >= 0 FROM pg_class c WHERE c.relnamespace = 2200 AND c.relkind = 'r'

-- dbeaver: grants
SELECT * FROM information_schema.table_privileges WHERE table_schema = 'public' AND table_name = 'orders'

-- dbeaver: roles
SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a LEFT JOIN pg_catalog.pg_shdescription pd ON a.oid = pd.objoid ORDER BY a.rolname

-- dbeaver: settings
SELECT name, setting, short_desc FROM pg_catalog.pg_settings WHERE name IN ('server_version', 'TimeZone') ORDER BY name

-- metabase: tables *
SELECT n.nspname AS "schema", c.relname AS "name", CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW'
  WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' END AS "type", d.description AS "description"
FROM pg_catalog.pg_class AS c INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description AS d ON (c.oid = d.objoid) AND (d.objsubid = 0) AND (d.classoid = 'pg_class'::regclass)
WHERE (c.relnamespace = n.oid) AND (n.nspname !~ '^pg_') AND (n.nspname NOT IN ('information_schema', 'rw_catalog'))
  AND c.relkind IN ('r', 'p', 'v', 'f', 'm') ORDER BY "type" ASC, "schema" ASC, "name" ASC

-- metabase: privileges *
WITH table_privileges AS (
  SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
    pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'SELECT') AS select,
    pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'INSERT') AS insert
  FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables
    UNION SELECT schemaname, viewname AS objectname FROM pg_views
    UNION SELECT schemaname, matviewname AS objectname FROM pg_matviews) t
  WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
SELECT t.* FROM table_privileges t WHERE t.schema = 'public' ORDER BY 3

-- metabase: fields *
SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s', c.udt_name)
    ELSE format('"%s"."%s"', c.udt_schema, c.udt_name) END AS "database-type", c.ordinal_position - 1 AS "database-position",
  c.table_schema AS "table-schema", c.table_name AS "table-name", pk.column_name IS NOT NULL AS "pk?",
  col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid), c.ordinal_position) AS "field-comment",
  ((c.column_default IS NULL) OR (lower(c.column_default) = 'null')) AND (c.is_nullable = 'NO') AND NOT ((c.column_default IS NOT NULL AND c.column_default LIKE '%nextval(%') OR (c.is_identity <> 'NO')) AS "database-required"
FROM information_schema.columns AS c
LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc
  INNER JOIN information_schema.key_column_usage AS kc ON (tc.constraint_name = kc.constraint_name) AND (tc.table_schema = kc.table_schema) AND (tc.table_name = kc.table_name)
  WHERE tc.constraint_type = 'PRIMARY KEY') AS pk ON (c.table_schema = pk.table_schema) AND (c.table_name = pk.table_name) AND (c.column_name = pk.column_name)
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND (c.table_schema IN ('public')) AND c.table_name IN ('orders', 'lines')
ORDER BY "table-schema", "table-name", "database-position"

-- metabase: version *
SELECT current_setting('server_version_num')::int >= 90500 AS recent, current_setting('server_version') IS NOT NULL AS known

-- metabase: enums *
SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum e)

-- grafana: version *
SELECT current_setting('server_version_num')::int / 100 > 900

-- grafana: tables *
SELECT CASE WHEN quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
      array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
      string_to_array(current_setting('search_path'), ',') s)
  THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', 'rw_catalog', '_timescaledb_cache') AND table_type <> 'MATERIALIZED VIEW'
ORDER BY 1

-- grafana: columns *
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('orders'), 1) = 2
  THEN quote_ident(table_schema) = (parse_ident('orders'))[1] AND quote_ident(table_name) = (parse_ident('orders'))[2]
  ELSE quote_ident(table_name) = 'orders' END ORDER BY ordinal_position

-- grafana: time columns *
SELECT quote_ident(column_name) FROM information_schema.columns
WHERE quote_ident(table_name) = 'orders' AND data_type IN ('timestamp without time zone', 'timestamp with time zone', 'bigint')
ORDER BY 1

-- dbt: relations
SELECT 'dev' AS database, tablename AS name, schemaname AS schema, 'table' AS type FROM pg_tables WHERE schemaname ilike 'public'
UNION ALL SELECT 'dev', viewname, schemaname, 'view' FROM pg_views WHERE schemaname ilike 'public'
UNION ALL SELECT 'dev', matviewname, schemaname, 'materialized_view' FROM pg_matviews WHERE schemaname ilike 'public'

-- dbt: columns *
SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale
FROM "dev".information_schema.columns WHERE table_name = 'visits' AND table_schema = 'public' ORDER BY ordinal_position

-- dbt: catalog *
SELECT 'dev' AS table_database, sch.nspname AS table_schema, tbl.relname AS table_name,
  CASE tbl.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'BASE TABLE' END AS table_type, tbl_desc.description AS table_comment,
  col.attname AS column_name, col.attnum AS column_index, pg_catalog.format_type(col.atttypid, col.atttypmod) AS column_type,
  col_desc.description AS column_comment, pg_get_userbyid(tbl.relowner) AS table_owner
FROM pg_catalog.pg_namespace sch JOIN pg_catalog.pg_class tbl ON tbl.relnamespace = sch.oid
JOIN pg_catalog.pg_attribute col ON col.attrelid = tbl.oid
LEFT OUTER JOIN pg_catalog.pg_description tbl_desc ON (tbl_desc.objoid = tbl.oid AND tbl_desc.objsubid = 0)
LEFT OUTER JOIN pg_catalog.pg_description col_desc ON (col_desc.objoid = tbl.oid AND col_desc.objsubid = col.attnum)
WHERE sch.nspname ilike 'public' AND NOT pg_is_other_temp_schema(sch.oid) AND tbl.relpersistence IN ('p', 'u')
  AND tbl.relkind IN ('r', 'v', 'f', 'p', 'm') AND col.attnum > 0 AND NOT col.attisdropped
ORDER BY sch.nspname, tbl.relname, col.attnum

-- dbt: schemas *
SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'public'

-- dbt: dependents *
WITH relation AS (SELECT pg_rewrite.ev_class AS class, pg_rewrite.oid AS id FROM pg_rewrite WHERE false),
  class AS (SELECT oid AS id, relname AS name, relnamespace AS schema, relkind AS kind FROM pg_class),
  dependency AS (SELECT DISTINCT pg_depend.objid AS id, pg_depend.refobjid AS ref FROM pg_depend),
  schema AS (SELECT pg_namespace.oid AS id, pg_namespace.nspname AS name FROM pg_namespace
    WHERE nspname != 'information_schema' AND nspname NOT LIKE 'pg\_%'),
  referenced AS (SELECT relation.id AS id, referenced_class.name, referenced_class.schema, referenced_class.kind FROM relation
    JOIN class AS referenced_class ON relation.class = referenced_class.id WHERE referenced_class.kind IN ('r', 'v', 'm'))
SELECT referenced.name FROM referenced JOIN dependency ON referenced.id = dependency.id

-- dbt: indexes *
SELECT i.relname AS name, m.amname AS method, ix.indisunique AS "unique", array_to_string(array_agg(a.attname), ',') AS column_names
FROM pg_index ix JOIN pg_class i ON i.oid = ix.indexrelid JOIN pg_am m ON m.oid = i.relam JOIN pg_class t ON t.oid = ix.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY(ix.indkey)
WHERE t.relname = 'orders' AND n.nspname = 'public' AND t.relkind IN ('r', 'm') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3

-- superset: current *
SELECT current_user, current_database(), current_schema

-- superset: table names *
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') ORDER BY 1

-- tableau: columns *
SELECT n.nspname, c.relname, a.attname, a.atttypid::int4 AS typid, a.attnum, t.typname, a.attlen, a.atttypmod, a.attnotnull::bool, c.relhasrules::bool, c.relkind::text
FROM ((pg_catalog.pg_class c INNER JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND c.oid = ('"public"."orders"')::regclass::oid)
  INNER JOIN pg_catalog.pg_attribute a ON (NOT a.attisdropped) AND a.attnum > 0 AND a.attrelid = c.oid)
  INNER JOIN pg_catalog.pg_type t ON t.oid = a.atttypid ORDER BY n.nspname, c.relname, a.attnum

-- npgsql: types *
SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid
FROM (SELECT typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind, elemtyp.oid AS elemtypoid,
    CASE WHEN elemproc.proname = 'array_recv' THEN 'a' ELSE elemtyp.typtype END AS elemtyptype
  FROM (SELECT typ.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem AS elemoid,
      CASE WHEN proc.proname = 'array_recv' THEN 'a' ELSE typ.typtype END AS typtype
    FROM pg_type AS typ LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid) LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive
    LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)) AS typ
  LEFT JOIN pg_type AS elemtyp ON elemtyp.oid = elemoid LEFT JOIN pg_proc AS elemproc ON elemproc.oid = elemtyp.typreceive) AS t
JOIN pg_namespace AS ns ON (ns.oid = typnamespace) WHERE t.typname IN ('int4', '_int4', 'varchar', 'numeric', '_jsonb') ORDER BY t.oid

-- datagrip: namespaces
SELECT N.oid::bigint AS id, N.xmin AS state_number, nspname AS name, D.description, pg_catalog.pg_get_userbyid(N.nspowner) AS "owner"
FROM pg_catalog.pg_namespace N LEFT JOIN pg_catalog.pg_description D ON N.oid = D.objoid ORDER BY CASE WHEN nspname = pg_catalog.current_schema() THEN -1::bigint ELSE N.oid::bigint END

-- datagrip: age
SELECT max(pg_catalog.age(xmin)) FROM pg_catalog.pg_class

-- go: columns of a key *
SELECT a.attname, k.i FROM pg_constraint c CROSS JOIN LATERAL unnest(c.conkey) WITH ORDINALITY AS k(attnum, i)
JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum WHERE c.conrelid = '"lines"'::regclass ORDER BY k.i

-- rails: primary keys *
SELECT a.attname FROM (SELECT indrelid, indkey, generate_subscripts(indkey, 1) idx FROM pg_index WHERE indrelid = '"lines"'::regclass AND indisprimary) i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[i.idx] ORDER BY i.idx

-- rails: columns *
SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull, a.atttypid, a.atttypmod, c.collname, col_description(a.attrelid, a.attnum) AS comment, attidentity AS identity, attgenerated AS attgenerated
FROM pg_attribute a LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
LEFT JOIN pg_type t ON a.atttypid = t.oid LEFT JOIN pg_collation c ON a.attcollation = c.oid AND a.attcollation <> t.typcollation
WHERE a.attrelid = '"orders"'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- django: tables *
SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END, obj_description(c.oid, 'pg_class')
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema', 'rw_catalog') AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1

-- django: constraints *
SELECT c.conname, array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx) JOIN pg_attribute AS ca ON cols.colid = ca.attnum
    WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx), c.contype,
  (SELECT fkc.relname || '.' || fka.attname FROM pg_attribute AS fka JOIN pg_class AS fkc ON fka.attrelid = fkc.oid WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1]), cl.reloptions
FROM pg_constraint AS c JOIN pg_class AS cl ON c.conrelid = cl.oid WHERE cl.relname = 'lines' AND pg_catalog.pg_table_is_visible(cl.oid)

-- django: indexes *
SELECT indexname, array_agg(attname ORDER BY arridx), indisunique, indisprimary, array_agg(ordering ORDER BY arridx), amname, exprdef, s2.attoptions
FROM (SELECT c2.relname AS indexname, idx.*, attr.attname, am.amname, CASE WHEN idx.indexprs IS NOT NULL THEN pg_get_indexdef(idx.indexrelid) END AS exprdef,
    CASE am.amname WHEN 'btree' THEN CASE (option & 1) WHEN 1 THEN 'DESC' ELSE 'ASC' END END AS ordering, c2.reloptions AS attoptions
  FROM (SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, arridx)) idx
  LEFT JOIN pg_class c ON idx.indrelid = c.oid LEFT JOIN pg_class c2 ON idx.indexrelid = c2.oid LEFT JOIN pg_am am ON c2.relam = am.oid
  LEFT JOIN pg_attribute attr ON attr.attrelid = c.oid AND attr.attnum = idx.key WHERE c.relname = 'orders' AND pg_catalog.pg_table_is_visible(c.oid)) s2
GROUP BY indexname, indisunique, indisprimary, amname, exprdef, attoptions ORDER BY 1

-- odd: casts *
SELECT 'orders'::regclass::oid = 16386, 16386::regclass, 'public.orders'::regclass, 'int4'::regtype, 1700::oid::regtype::text, 'integer[]'::regtype::oid, 'public'::regnamespace, 10::regrole IS NOT NULL, '{1,2}'::int[], NULL::oid, 'a'::"char", 'x'::name, 1::int2, to_regclass('nope')

-- odd: any *
SELECT typname FROM pg_type WHERE oid = ANY('{16,23}') AND typtype = ANY(ARRAY['b', 'c']) AND NOT typname = ANY('{bool}'::name[]) ORDER BY typname

-- odd: names of columns *
SELECT 1, 'x', 'x'::text, lower('A'), upper('a') AS up, current_user, coalesce(NULL, 1), CASE WHEN true THEN 1 END, (SELECT 5), ARRAY[1], true AND false, (SELECT count(*) FROM pg_am WHERE false), version() IS NULL, pg_is_in_recovery()

-- odd: from functions *
SELECT * FROM current_schema() AS s, generate_series(1, 2) AS g, unnest(ARRAY[5, 6]) AS u ORDER BY g, u

-- odd: escapes *
SELECT relname FROM pg_class WHERE relname LIKE 'pg\_am' AND relname LIKE E'pg\\_am' AND relname NOT LIKE 'x/%' ESCAPE '/'

-- odd: grouped by a key *
SELECT c.relname, count(*) AS n FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.oid = 16393 AND a.attnum > 0 GROUP BY c.oid HAVING c.relkind = 'r' ORDER BY c.relname

-- odd: names in texts *
SELECT array_to_string(array_agg(oid::regclass), ','), string_agg(oid::regclass::text, ','), min(relname::text || ' ' || oid::regclass)
FROM pg_class WHERE oid = 16386

-- odd: vectors in texts *
SELECT indkey::text, indkey::int2[], indkey[0], array_upper(indkey, 1), array_lower(indkey, 1), conkey::text, array_length(conkey, 1)
FROM pg_index JOIN pg_constraint ON conindid = indexrelid WHERE indrelid = 16398

-- odd: patterns *
SELECT 'a' ~ 'A', 'a' ~* 'A', 'ab' ~ '^a', 'a' !~ 'b', substring('abc' from '[b-z]+'), regexp_replace('a-b-c', '-', '_', 'g'), rtrim('a;', ';')
FROM pg_am LIMIT 1

-- odd: sizes by name *
SELECT pg_relation_size('orders') >= 0, pg_size_pretty(12345678::bigint), sum(relnatts) AS n FROM pg_class WHERE oid = 16386

-- standard: tables *
SELECT * FROM information_schema.tables WHERE table_schema IN ('public', 'staging') AND table_type = 'BASE TABLE'

-- standard: columns *
SELECT * FROM information_schema.columns WHERE table_schema IN ('public', 'staging') AND table_name NOT IN ('totals', 'large_orders')

-- standard: constraints *
SELECT * FROM information_schema.table_constraints WHERE table_schema IN ('public', 'staging') AND constraint_type <> 'CHECK'

-- standard: columns of keys *
SELECT * FROM information_schema.key_column_usage WHERE table_schema IN ('public', 'staging')

-- standard: columns of constraints *
SELECT * FROM information_schema.constraint_column_usage WHERE table_schema IN ('public', 'staging')

-- standard: references *
SELECT * FROM information_schema.referential_constraints

-- catalog: attributes *
SELECT * FROM pg_attribute WHERE attrelid IN (16386, 16393, 16398, 16405, 16409, 16415) AND attnum > 0

-- catalog: types *
SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typisdefined, typdelim, typrelid, typelem, typarray,
  typinput, typoutput, typreceive, typsend, typalign, typstorage, typnotnull, typbasetype, typtypmod, typndims, typcollation
FROM pg_type WHERE typname IN ('bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'varchar', 'text', 'bytea', 'date', 'time',
  'timestamp', 'timestamptz', 'interval', 'jsonb', '_varchar', '_numeric', 'oid', 'name', 'char', 'int2vector', 'regproc', 'uuid', 'json', 'xid')

-- catalog: tables, indexes, views of them *
SELECT t.*, i.indexname, i.indexdef FROM pg_tables t LEFT JOIN pg_indexes i USING (schemaname, tablename)
WHERE schemaname IN ('public', 'staging')
