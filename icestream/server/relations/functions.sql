-- PostgreSQL's system functions, in DuckDB's SQL. What a function looks up is in the_names and the_texts, whose columns
-- end in "_" as parameters do, so that no column of a query is taken for one of theirs. Clients
-- cannot call a HELPER.

-- Names of OIDs, and OIDs of names.
HELPER name_of(kind__, it__) RETURNS text AS
    (SELECT CASE WHEN list_contains(getvariable('session').path, schema_) THEN short_ ELSE full_ END
    FROM the_names WHERE kind_ = kind__ AND oid_ = it__);
FUNCTION parse_ident(it__, strict__ := true) RETURNS text[] AS list_transform(
    regexp_extract_all(it__::VARCHAR, '"(?:[^"]|"")*"|[^".]+'),
    lambda each__: CASE WHEN each__[1] = '"' THEN replace(each__[2:-2], '""', '"') ELSE lower(trim(each__)) END);
HELPER folded(it__) RETURNS text AS array_to_string(fn.parse_ident(it__), '.');
HELPER oid_of(kind__, text__) RETURNS oid AS (SELECT arg_min(oid_, coalesce(list_position(getvariable('session').path, schema_), 0))
    FROM the_names WHERE (kind_ = kind__ OR kind_ = kind__ || ' alias')
    AND ((raw_ = fn.folded(text__) AND list_contains(getvariable('session').path, schema_)) OR schema_ || '.' || raw_ = fn.folded(text__)));
HELPER registered(kind__, what__, it__) RETURNS oid AS coalesce(try_cast(it__::VARCHAR AS UINTEGER),
    CASE WHEN it__::VARCHAR = '-' THEN 0 END, fn.oid_of(kind__, it__),
    CASE WHEN it__ IS NOT NULL THEN error(what__ || ' "' || it__::VARCHAR || '" does not exist') END);
HELPER registered_text(kind__, it__) RETURNS text AS CASE WHEN it__ = 0 THEN '-' ELSE coalesce(fn.name_of(kind__, it__), it__::VARCHAR) END;
HELPER text_of(what__, it__, part__ := 0) RETURNS text AS
    (SELECT text_ FROM the_texts WHERE what_ = what__ AND oid_ = it__ AND part_ = part__);
FUNCTION to_regclass(name__) RETURNS regclass AS fn.oid_of('regclass', name__);
FUNCTION to_regtype(name__) RETURNS regtype AS fn.oid_of('regtype', name__);
FUNCTION to_regproc(name__) RETURNS regproc AS fn.oid_of('regproc', name__);
FUNCTION to_regnamespace(name__) RETURNS regnamespace AS fn.oid_of('regnamespace', name__);
FUNCTION to_regrole(name__) RETURNS regrole AS fn.oid_of('regrole', name__);
FUNCTION pg_get_userbyid(it__) RETURNS name AS coalesce(fn.name_of('regrole', it__), 'unknown (OID=' || it__::VARCHAR || ')');
FUNCTION format_type(it__, modifier__) RETURNS text AS CASE
    WHEN it__ IN (1700, 1231) AND modifier__ > 4 THEN 'numeric(' || ((modifier__::INTEGER - 4) >> 16)::VARCHAR || ',' || ((modifier__::INTEGER - 4) & 65535)::VARCHAR
        || ')' || CASE it__ WHEN 1231 THEN '[]' ELSE '' END
    WHEN it__ = 0 THEN '-' ELSE coalesce(fn.name_of('regtype', it__), CASE WHEN it__ IS NOT NULL THEN '???' END) END;

-- Definitions and comments.
FUNCTION pg_get_expr(it__, relation__, pretty__ := false) RETURNS text AS it__;
FUNCTION pg_get_viewdef(it__, pretty__ := false) RETURNS text AS
    fn.text_of('view', coalesce(try_cast(it__::VARCHAR AS UINTEGER), fn.oid_of('regclass', it__::VARCHAR)));
FUNCTION pg_get_indexdef(it__, column__ := 0, pretty__ := false) RETURNS text AS 
    fn.text_of(CASE WHEN pretty__ AND column__ = 0 THEN 'index pretty' ELSE 'index' END, it__, column__);
FUNCTION pg_get_constraintdef(it__, pretty__ := false) RETURNS text AS fn.text_of('constraint', it__);
FUNCTION pg_get_function_arguments(it__) RETURNS text AS fn.text_of('arguments', it__);
FUNCTION pg_get_function_identity_arguments(it__) RETURNS text AS fn.text_of('arguments', it__);
FUNCTION pg_get_function_result(it__) RETURNS text AS fn.text_of('result', it__);
FUNCTION pg_get_functiondef(it__) RETURNS text AS NULL;
FUNCTION pg_get_function_sqlbody(it__) RETURNS text AS NULL;
FUNCTION pg_get_ruledef(it__, pretty__ := false) RETURNS text AS NULL;
FUNCTION pg_get_triggerdef(it__, pretty__ := false) RETURNS text AS NULL;
FUNCTION pg_get_partkeydef(it__) RETURNS text AS NULL;
FUNCTION pg_get_partition_constraintdef(it__) RETURNS text AS NULL;
FUNCTION pg_get_statisticsobjdef(it__) RETURNS text AS NULL;
FUNCTION pg_get_statisticsobjdef_columns(it__) RETURNS text AS NULL;
FUNCTION pg_get_serial_sequence(table__, column__) RETURNS text AS NULL;
FUNCTION obj_description(it__, class__ := NULL) RETURNS text AS fn.text_of('comment', it__);
FUNCTION col_description(table__, column__) RETURNS text AS fn.text_of('comment', table__, column__);
FUNCTION shobj_description(it__, class__) RETURNS text AS NULL;

-- What can be seen and done.
FUNCTION pg_table_is_visible(it__) RETURNS bool AS it__ IN
    (SELECT oid_ FROM the_names WHERE kind_ = 'regclass' AND list_contains(getvariable('session').path, schema_));
FUNCTION pg_type_is_visible(it__) RETURNS bool AS it__ IN
    (SELECT oid_ FROM the_names WHERE kind_ = 'regtype' AND list_contains(getvariable('session').path, schema_));
FUNCTION pg_function_is_visible(it__) RETURNS bool AS it__ IN
    (SELECT oid_ FROM the_names WHERE kind_ = 'regproc' AND list_contains(getvariable('session').path, schema_));
FUNCTION pg_collation_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_conversion_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_opclass_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_opfamily_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_operator_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_statistics_obj_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_ts_config_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_ts_dict_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_ts_parser_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION pg_ts_template_is_visible(it__) RETURNS bool AS it__ IS NOT NULL;
FUNCTION has_table_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_column_privilege(a__, b__, c__, d__ := NULL) RETURNS bool AS true;
FUNCTION has_any_column_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_schema_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_database_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_function_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_sequence_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_tablespace_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_type_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_language_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_server_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION has_foreign_data_wrapper_privilege(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION pg_has_role(a__, b__, c__ := NULL) RETURNS bool AS true;
FUNCTION row_security_active(it__) RETURNS bool AS false;
FUNCTION acldefault(a__, b__) RETURNS aclitem[] AS NULL;
FUNCTION aclexplode(it__) RETURNS record AS unnest([]::STRUCT(grantor UINTEGER, grantee UINTEGER, privilege_type VARCHAR, is_grantable BOOLEAN)[]);
FUNCTION pg_relation_is_publishable(it__) RETURNS bool AS true;
FUNCTION pg_relation_is_updatable(it__, triggers__) RETURNS int4 AS 0;
FUNCTION pg_column_is_updatable(it__, column__, triggers__) RETURNS bool AS false;

-- The session and the server.
FUNCTION current_setting(name__, missing__ := false) RETURNS text AS coalesce(getvariable('settings')[lower(name__)],
    CASE WHEN NOT missing__ THEN error('unrecognized configuration parameter "' || name__ || '"') END);
FUNCTION version() RETURNS text AS 'PostgreSQL ' || fn.current_setting('server_version') || ' (icestream)';
FUNCTION current_user() RETURNS name AS getvariable('session').user;
FUNCTION session_user() RETURNS name AS getvariable('session').user;
FUNCTION current_role() RETURNS name AS getvariable('session').user;
FUNCTION user() RETURNS name AS getvariable('session').user;
FUNCTION current_database() RETURNS name AS getvariable('session').database;
FUNCTION current_catalog() RETURNS name AS getvariable('session').database;
FUNCTION current_schema() RETURNS name AS (getvariable('session').schemas::VARCHAR[])[1];
FUNCTION current_schemas(implicit__) RETURNS name[] AS CASE WHEN implicit__ THEN getvariable('session').path ELSE getvariable('session').schemas::VARCHAR[] END;
FUNCTION pg_backend_pid() RETURNS int4 AS getvariable('session').pid;
FUNCTION pg_cancel_backend(pid__) RETURNS bool AS signal_backend(pid__::INTEGER, 'cancel');
FUNCTION pg_terminate_backend(pid__, timeout__ := 0) RETURNS bool AS signal_backend(pid__::INTEGER, 'terminate');
FUNCTION set_config(name__, value__, local__) RETURNS text AS value__;
FUNCTION pg_is_in_recovery() RETURNS bool AS false;
FUNCTION pg_is_wal_replay_paused() RETURNS bool AS false;
FUNCTION pg_postmaster_start_time() RETURNS timestamptz AS getvariable('session').started;
FUNCTION pg_conf_load_time() RETURNS timestamptz AS getvariable('session').started;
FUNCTION txid_current() RETURNS int8 AS 1;
FUNCTION txid_current_if_assigned() RETURNS int8 AS NULL;
FUNCTION pg_current_xact_id() RETURNS xid8 AS 1;
FUNCTION pg_my_temp_schema() RETURNS oid AS 0;
FUNCTION pg_is_other_temp_schema(it__) RETURNS bool AS false;
FUNCTION inet_server_addr() RETURNS inet AS NULL;
FUNCTION inet_server_port() RETURNS int4 AS NULL;
FUNCTION inet_client_addr() RETURNS inet AS NULL;
FUNCTION inet_client_port() RETURNS int4 AS NULL;
FUNCTION pg_encoding_to_char(it__) RETURNS name AS CASE it__ WHEN 6 THEN 'UTF8' ELSE '' END;
FUNCTION pg_char_to_encoding(it__) RETURNS int4 AS CASE upper(it__::VARCHAR) WHEN 'UTF8' THEN 6 ELSE -1 END;
FUNCTION getdatabaseencoding() RETURNS name AS 'UTF8';
FUNCTION pg_client_encoding() RETURNS name AS 'UTF8';
FUNCTION pg_tablespace_location(it__) RETURNS text AS '';
FUNCTION pg_show_all_settings() RETURNS TABLE AS SELECT name,
    coalesce(getvariable('settings')[lower(name)], setting) AS setting, * EXCLUDE (name, setting) FROM the_settings;
FUNCTION pg_get_keywords() RETURNS TABLE AS SELECT keyword_name AS word, upper(keyword_category[1]) AS catcode,
    true AS barelabel, keyword_category AS catdesc, 'can be bare label' AS baredesc FROM duckdb_keywords();
FUNCTION pg_options_to_table(it__) RETURNS TABLE AS SELECT NULL::VARCHAR AS option_name, NULL::VARCHAR AS option_value WHERE false;
FUNCTION pg_listening_channels() RETURNS TABLE AS SELECT NULL::VARCHAR AS pg_listening_channels WHERE false;
FUNCTION pg_partition_ancestors(it__) RETURNS TABLE AS SELECT NULL::UINTEGER AS relid WHERE false;
FUNCTION pg_partition_tree(it__) RETURNS TABLE AS
    SELECT NULL::UINTEGER AS relid, NULL::UINTEGER AS parentrelid, false AS isleaf, 0 AS level WHERE false;

-- Sizes.
FUNCTION pg_relation_size(it__, fork__ := NULL) RETURNS int8 AS coalesce(fn.text_of('bytes', it__)::BIGINT, 0);
FUNCTION pg_table_size(it__) RETURNS int8 AS coalesce(fn.text_of('bytes', it__)::BIGINT, 0);
FUNCTION pg_total_relation_size(it__) RETURNS int8 AS coalesce(fn.text_of('bytes', it__)::BIGINT, 0);
FUNCTION pg_indexes_size(it__) RETURNS int8 AS 0;
FUNCTION pg_tablespace_size(it__) RETURNS int8 AS 0;
FUNCTION pg_database_size(it__) RETURNS int8 AS (SELECT coalesce(sum(text_::BIGINT), 0) FROM the_texts WHERE what_ = 'bytes');
FUNCTION pg_stat_get_numscans(it__) RETURNS int8 AS 0;
FUNCTION pg_relation_filenode(it__) RETURNS oid AS it__;
FUNCTION pg_size_pretty(it__) RETURNS text AS CASE WHEN abs(it__) < 10240 THEN it__::BIGINT::VARCHAR || ' bytes'
    WHEN abs(it__) < 10485760 THEN round(it__ / 1024)::BIGINT::VARCHAR || ' kB'
    WHEN abs(it__) < 10737418240 THEN round(it__ / 1048576)::BIGINT::VARCHAR || ' MB'
    ELSE round(it__ / 1073741824)::BIGINT::VARCHAR || ' GB' END;

-- Texts and arrays.
FUNCTION quote_ident(it__) RETURNS text AS CASE WHEN regexp_full_match(it__, '[a-z_][a-z0-9_$]*')
    AND it__ NOT IN (SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved')
    THEN it__ ELSE '"' || replace(it__, '"', '""') || '"' END;
FUNCTION quote_literal(it__) RETURNS text AS '''' || replace(it__::VARCHAR, '''', '''''') || '''';
FUNCTION quote_nullable(it__) RETURNS text AS coalesce('''' || replace(it__::VARCHAR, '''', '''''') || '''', 'NULL');
FUNCTION octet_length(it__) RETURNS int4 AS strlen(it__);
FUNCTION array_upper(it__, dimension__) RETURNS int4 AS nullif(len(it__), 0);
FUNCTION array_lower(it__, dimension__) RETURNS int4 AS CASE WHEN len(it__) > 0 THEN 1 END;
FUNCTION array_length(it__, dimension__) RETURNS int4 AS nullif(len(it__), 0);
FUNCTION array_ndims(it__) RETURNS int4 AS CASE WHEN len(it__) > 0 THEN 1 END;
FUNCTION cardinality(it__) RETURNS int4 AS len(it__);
FUNCTION array_to_string(it__, between__, null__ := NULL) RETURNS text AS
    coalesce(list_aggregate(list_transform(it__, lambda each__: coalesce(each__::VARCHAR, null__)), 'string_agg', between__),
        CASE WHEN it__ IS NOT NULL THEN '' END);
FUNCTION array_remove(it__, gone__) RETURNS anyarray AS list_filter(it__, lambda each__: each__ IS DISTINCT FROM gone__);
FUNCTION generate_subscripts(it__, dimension__) RETURNS int4 AS unnest(range(1, len(it__) + 1));
HELPER vector_subscripts(it__) RETURNS int4 AS unnest(range(len(it__)));
FUNCTION _pg_expandarray(it__) RETURNS record AS
    unnest(list_transform(range(len(it__)), lambda each__: {'x': it__[each__ + 1], 'n': (each__ + 1)::INTEGER}));
HELPER expanded(it__) RETURNS TABLE AS SELECT unnest(it__) AS x, unnest(range(1, len(it__) + 1)) AS n;
FUNCTION clock_timestamp() RETURNS timestamptz AS now();
FUNCTION statement_timestamp() RETURNS timestamptz AS now();
FUNCTION transaction_timestamp() RETURNS timestamptz AS now();
