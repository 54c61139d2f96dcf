-- The columns of PostgreSQL 15's system relations, and the OIDs of those that have a fixed one.
VIEW information_schema.administrable_role_authorizations (grantee name, role_name name, is_grantable varchar);
VIEW information_schema.applicable_roles (grantee name, role_name name, is_grantable varchar);
VIEW information_schema.character_sets (character_set_catalog name, character_set_schema name, character_set_name
    name, character_repertoire name, form_of_use name, default_collate_catalog name, default_collate_schema name,
    default_collate_name name);
VIEW information_schema.check_constraints (constraint_catalog name, constraint_schema name, constraint_name name,
    check_clause varchar);
VIEW information_schema.collations (collation_catalog name, collation_schema name, collation_name name, pad_attribute
    varchar);
VIEW information_schema.column_privileges (grantor name, grantee name, table_catalog name, table_schema name,
    table_name name, column_name name, privilege_type varchar, is_grantable varchar);
VIEW information_schema.columns (table_catalog name, table_schema name, table_name name, column_name name,
    ordinal_position int4, column_default varchar, is_nullable varchar, data_type varchar, character_maximum_length
    int4, character_octet_length int4, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4,
    datetime_precision int4, interval_type varchar, interval_precision int4, character_set_catalog name,
    character_set_schema name, character_set_name name, collation_catalog name, collation_schema name, collation_name
    name, domain_catalog name, domain_schema name, domain_name name, udt_catalog name, udt_schema name, udt_name name,
    scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name,
    is_self_referencing varchar, is_identity varchar, identity_generation varchar, identity_start varchar,
    identity_increment varchar, identity_maximum varchar, identity_minimum varchar, identity_cycle varchar,
    is_generated varchar, generation_expression varchar, is_updatable varchar);
VIEW information_schema.constraint_column_usage (table_catalog name, table_schema name, table_name name, column_name
    name, constraint_catalog name, constraint_schema name, constraint_name name);
VIEW information_schema.constraint_table_usage (table_catalog name, table_schema name, table_name name,
    constraint_catalog name, constraint_schema name, constraint_name name);
VIEW information_schema.domain_constraints (constraint_catalog name, constraint_schema name, constraint_name name,
    domain_catalog name, domain_schema name, domain_name name, is_deferrable varchar, initially_deferred varchar);
VIEW information_schema.domains (domain_catalog name, domain_schema name, domain_name name, data_type varchar,
    character_maximum_length int4, character_octet_length int4, character_set_catalog name, character_set_schema name,
    character_set_name name, collation_catalog name, collation_schema name, collation_name name, numeric_precision
    int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type varchar,
    interval_precision int4, domain_default varchar, udt_catalog name, udt_schema name, udt_name name, scope_catalog
    name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name);
VIEW information_schema.element_types (object_catalog name, object_schema name, object_name name, object_type varchar,
    collection_type_identifier name, data_type varchar, character_maximum_length int4, character_octet_length int4,
    character_set_catalog name, character_set_schema name, character_set_name name, collation_catalog name,
    collation_schema name, collation_name name, numeric_precision int4, numeric_precision_radix int4, numeric_scale
    int4, datetime_precision int4, interval_type varchar, interval_precision int4, domain_default varchar, udt_catalog
    name, udt_schema name, udt_name name, scope_catalog name, scope_schema name, scope_name name, maximum_cardinality
    int4, dtd_identifier name);
VIEW information_schema.enabled_roles (role_name name);
VIEW information_schema.foreign_tables (foreign_table_catalog name, foreign_table_schema name, foreign_table_name
    name, foreign_server_catalog name, foreign_server_name name);
VIEW information_schema.information_schema_catalog_name (catalog_name name);
VIEW information_schema.key_column_usage (constraint_catalog name, constraint_schema name, constraint_name name,
    table_catalog name, table_schema name, table_name name, column_name name, ordinal_position int4,
    position_in_unique_constraint int4);
VIEW information_schema.parameters (specific_catalog name, specific_schema name, specific_name name, ordinal_position
    int4, parameter_mode varchar, is_result varchar, as_locator varchar, parameter_name name, data_type varchar,
    character_maximum_length int4, character_octet_length int4, character_set_catalog name, character_set_schema name,
    character_set_name name, collation_catalog name, collation_schema name, collation_name name, numeric_precision
    int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type varchar,
    interval_precision int4, udt_catalog name, udt_schema name, udt_name name, scope_catalog name, scope_schema name,
    scope_name name, maximum_cardinality int4, dtd_identifier name, parameter_default varchar);
VIEW information_schema.referential_constraints (constraint_catalog name, constraint_schema name, constraint_name
    name, unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name name, match_option
    varchar, update_rule varchar, delete_rule varchar);
VIEW information_schema.role_table_grants (grantor name, grantee name, table_catalog name, table_schema name,
    table_name name, privilege_type varchar, is_grantable varchar, with_hierarchy varchar);
VIEW information_schema.routines (specific_catalog name, specific_schema name, specific_name name, routine_catalog
    name, routine_schema name, routine_name name, routine_type varchar, module_catalog name, module_schema name,
    module_name name, udt_catalog name, udt_schema name, udt_name name, data_type varchar, character_maximum_length
    int4, character_octet_length int4, character_set_catalog name, character_set_schema name, character_set_name name,
    collation_catalog name, collation_schema name, collation_name name, numeric_precision int4,
    numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type varchar,
    interval_precision int4, type_udt_catalog name, type_udt_schema name, type_udt_name name, scope_catalog name,
    scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name, routine_body varchar,
    routine_definition varchar, external_name varchar, external_language varchar, parameter_style varchar,
    is_deterministic varchar, sql_data_access varchar, is_null_call varchar, sql_path varchar, schema_level_routine
    varchar, max_dynamic_result_sets int4, is_user_defined_cast varchar, is_implicitly_invocable varchar,
    security_type varchar, to_sql_specific_catalog name, to_sql_specific_schema name, to_sql_specific_name name,
    as_locator varchar, created timestamptz, last_altered timestamptz, new_savepoint_level varchar, is_udt_dependent
    varchar, result_cast_from_data_type varchar, result_cast_as_locator varchar, result_cast_char_max_length int4,
    result_cast_char_octet_length int4, result_cast_char_set_catalog name, result_cast_char_set_schema name,
    result_cast_char_set_name name, result_cast_collation_catalog name, result_cast_collation_schema name,
    result_cast_collation_name name, result_cast_numeric_precision int4, result_cast_numeric_precision_radix int4,
    result_cast_numeric_scale int4, result_cast_datetime_precision int4, result_cast_interval_type varchar,
    result_cast_interval_precision int4, result_cast_type_udt_catalog name, result_cast_type_udt_schema name,
    result_cast_type_udt_name name, result_cast_scope_catalog name, result_cast_scope_schema name,
    result_cast_scope_name name, result_cast_maximum_cardinality int4, result_cast_dtd_identifier name);
VIEW information_schema.schemata (catalog_name name, schema_name name, schema_owner name,
    default_character_set_catalog name, default_character_set_schema name, default_character_set_name name, sql_path
    varchar);
VIEW information_schema.sequences (sequence_catalog name, sequence_schema name, sequence_name name, data_type varchar,
    numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, start_value varchar, minimum_value
    varchar, maximum_value varchar, increment varchar, cycle_option varchar);
VIEW information_schema.table_constraints (constraint_catalog name, constraint_schema name, constraint_name name,
    table_catalog name, table_schema name, table_name name, constraint_type varchar, is_deferrable varchar,
    initially_deferred varchar, enforced varchar, nulls_distinct varchar);
VIEW information_schema.table_privileges (grantor name, grantee name, table_catalog name, table_schema name,
    table_name name, privilege_type varchar, is_grantable varchar, with_hierarchy varchar);
VIEW information_schema.tables (table_catalog name, table_schema name, table_name name, table_type varchar,
    self_referencing_column_name name, reference_generation varchar, user_defined_type_catalog name,
    user_defined_type_schema name, user_defined_type_name name, is_insertable_into varchar, is_typed varchar,
    commit_action varchar);
VIEW information_schema.triggers (trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation
    varchar, event_object_catalog name, event_object_schema name, event_object_table name, action_order int4,
    action_condition varchar, action_statement varchar, action_orientation varchar, action_timing varchar,
    action_reference_old_table name, action_reference_new_table name, action_reference_old_row name,
    action_reference_new_row name, created timestamptz);
VIEW information_schema.user_defined_types (user_defined_type_catalog name, user_defined_type_schema name,
    user_defined_type_name name, user_defined_type_category varchar, is_instantiable varchar, is_final varchar,
    ordering_form varchar, ordering_category varchar, ordering_routine_catalog name, ordering_routine_schema name,
    ordering_routine_name name, reference_type varchar, data_type varchar, character_maximum_length int4,
    character_octet_length int4, character_set_catalog name, character_set_schema name, character_set_name name,
    collation_catalog name, collation_schema name, collation_name name, numeric_precision int4,
    numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type varchar,
    interval_precision int4, source_dtd_identifier name, ref_dtd_identifier name);
VIEW information_schema.view_column_usage (view_catalog name, view_schema name, view_name name, table_catalog name,
    table_schema name, table_name name, column_name name);
VIEW information_schema.view_table_usage (view_catalog name, view_schema name, view_name name, table_catalog name,
    table_schema name, table_name name);
VIEW information_schema.views (table_catalog name, table_schema name, table_name name, view_definition varchar,
    check_option varchar, is_updatable varchar, is_insertable_into varchar, is_trigger_updatable varchar,
    is_trigger_deletable varchar, is_trigger_insertable_into varchar);
TABLE pg_catalog.pg_aggregate OID 2600 (aggfnoid regproc, aggkind "char", aggnumdirectargs int2, aggtransfn regproc,
    aggfinalfn regproc, aggcombinefn regproc, aggserialfn regproc, aggdeserialfn regproc, aggmtransfn regproc,
    aggminvtransfn regproc, aggmfinalfn regproc, aggfinalextra bool, aggmfinalextra bool, aggfinalmodify "char",
    aggmfinalmodify "char", aggsortop oid, aggtranstype oid, aggtransspace int4, aggmtranstype oid, aggmtransspace
    int4, agginitval text, aggminitval text);
TABLE pg_catalog.pg_am OID 2601 (oid oid, amname name, amhandler regproc, amtype "char");
TABLE pg_catalog.pg_attrdef OID 2604 (oid oid, adrelid oid, adnum int2, adbin pg_node_tree);
TABLE pg_catalog.pg_attribute OID 1249 (attrelid oid, attname name, atttypid oid, attstattarget int4, attlen int2,
    attnum int2, attndims int4, attcacheoff int4, atttypmod int4, attbyval bool, attalign "char", attstorage "char",
    attcompression "char", attnotnull bool, atthasdef bool, atthasmissing bool, attidentity "char", attgenerated
    "char", attisdropped bool, attislocal bool, attinhcount int4, attcollation oid, attacl aclitem[], attoptions
    text[], attfdwoptions text[], attmissingval anyarray);
TABLE pg_catalog.pg_auth_members OID 1261 (roleid oid, member oid, grantor oid, admin_option bool);
VIEW pg_catalog.pg_available_extensions (name name, default_version text, installed_version text, comment text);
TABLE pg_catalog.pg_cast OID 2605 (oid oid, castsource oid, casttarget oid, castfunc oid, castcontext "char",
    castmethod "char");
TABLE pg_catalog.pg_class OID 1259 (oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner oid,
    relam oid, relfilenode oid, reltablespace oid, relpages int4, reltuples float4, relallvisible int4, reltoastrelid
    oid, relhasindex bool, relisshared bool, relpersistence "char", relkind "char", relnatts int2, relchecks int2,
    relhasrules bool, relhastriggers bool, relhassubclass bool, relrowsecurity bool, relforcerowsecurity bool,
    relispopulated bool, relreplident "char", relispartition bool, relrewrite oid, relfrozenxid xid, relminmxid xid,
    relacl aclitem[], reloptions text[], relpartbound pg_node_tree);
TABLE pg_catalog.pg_collation OID 3456 (oid oid, collname name, collnamespace oid, collowner oid, collprovider "char",
    collisdeterministic bool, collencoding int4, collcollate text, collctype text, colliculocale text, collversion
    text);
TABLE pg_catalog.pg_constraint OID 2606 (oid oid, conname name, connamespace oid, contype "char", condeferrable bool,
    condeferred bool, convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid,
    confupdtype "char", confdeltype "char", confmatchtype "char", conislocal bool, coninhcount int4, connoinherit
    bool, conkey int2[], confkey int2[], conpfeqop oid[], conppeqop oid[], conffeqop oid[], confdelsetcols int2[],
    conexclop oid[], conbin pg_node_tree);
TABLE pg_catalog.pg_conversion OID 2607 (oid oid, conname name, connamespace oid, conowner oid, conforencoding int4,
    contoencoding int4, conproc regproc, condefault bool);
VIEW pg_catalog.pg_cursors (name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool,
    creation_time timestamptz);
TABLE pg_catalog.pg_database OID 1262 (oid oid, datname name, datdba oid, encoding int4, datlocprovider "char",
    datistemplate bool, datallowconn bool, datconnlimit int4, datfrozenxid xid, datminmxid xid, dattablespace oid,
    datcollate text, datctype text, daticulocale text, datcollversion text, datacl aclitem[]);
TABLE pg_catalog.pg_db_role_setting OID 2964 (setdatabase oid, setrole oid, setconfig text[]);
TABLE pg_catalog.pg_default_acl OID 826 (oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype "char", defaclacl
    aclitem[]);
TABLE pg_catalog.pg_depend OID 2608 (classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid
    int4, deptype "char");
TABLE pg_catalog.pg_description OID 2609 (objoid oid, classoid oid, objsubid int4, description text);
TABLE pg_catalog.pg_enum OID 3501 (oid oid, enumtypid oid, enumsortorder float4, enumlabel name);
TABLE pg_catalog.pg_event_trigger OID 3466 (oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid,
    evtenabled "char", evttags text[]);
TABLE pg_catalog.pg_extension OID 3079 (oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool,
    extversion text, extconfig oid[], extcondition text[]);
TABLE pg_catalog.pg_foreign_data_wrapper OID 2328 (oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator
    oid, fdwacl aclitem[], fdwoptions text[]);
TABLE pg_catalog.pg_foreign_server OID 1417 (oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text, srvversion
    text, srvacl aclitem[], srvoptions text[]);
TABLE pg_catalog.pg_foreign_table OID 3118 (ftrelid oid, ftserver oid, ftoptions text[]);
VIEW pg_catalog.pg_group (groname name, grosysid oid, grolist oid[]);
TABLE pg_catalog.pg_index OID 2610 (indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool,
    indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, indisclustered bool,
    indisvalid bool, indcheckxmin bool, indisready bool, indislive bool, indisreplident bool, indkey int2vector,
    indcollation oidvector, indclass oidvector, indoption int2vector, indexprs pg_node_tree, indpred pg_node_tree);
VIEW pg_catalog.pg_indexes (schemaname name, tablename name, indexname name, tablespace name, indexdef text);
TABLE pg_catalog.pg_inherits OID 2611 (inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool);
TABLE pg_catalog.pg_language OID 2612 (oid oid, lanname name, lanowner oid, lanispl bool, lanpltrusted bool,
    lanplcallfoid oid, laninline oid, lanvalidator oid, lanacl aclitem[]);
TABLE pg_catalog.pg_largeobject_metadata OID 2995 (oid oid, lomowner oid, lomacl aclitem[]);
VIEW pg_catalog.pg_locks (locktype text, database oid, relation oid, page int4, tuple int2, virtualxid text,
    transactionid xid, classid oid, objid oid, objsubid int2, virtualtransaction text, pid int4, mode text, granted
    bool, fastpath bool, waitstart timestamptz);
VIEW pg_catalog.pg_matviews (schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool,
    ispopulated bool, definition text);
TABLE pg_catalog.pg_namespace OID 2615 (oid oid, nspname name, nspowner oid, nspacl aclitem[]);
TABLE pg_catalog.pg_opclass OID 2616 (oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily
    oid, opcintype oid, opcdefault bool, opckeytype oid);
TABLE pg_catalog.pg_operator OID 2617 (oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind "char",
    oprcanmerge bool, oprcanhash bool, oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate oid, oprcode
    regproc, oprrest regproc, oprjoin regproc);
TABLE pg_catalog.pg_opfamily OID 2753 (oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid);
TABLE pg_catalog.pg_partitioned_table OID 3350 (partrelid oid, partstrat "char", partnatts int2, partdefid oid,
    partattrs int2vector, partclass oidvector, partcollation oidvector, partexprs pg_node_tree);
VIEW pg_catalog.pg_policies (schemaname name, tablename name, policyname name, permissive text, roles name[], cmd
    text, qual text, with_check text);
TABLE pg_catalog.pg_policy OID 3256 (oid oid, polname name, polrelid oid, polcmd "char", polpermissive bool, polroles
    oid[], polqual pg_node_tree, polwithcheck pg_node_tree);
VIEW pg_catalog.pg_prepared_statements (name text, statement text, prepare_time timestamptz, parameter_types
    regtype[], from_sql bool, generic_plans int8, custom_plans int8);
VIEW pg_catalog.pg_prepared_xacts (transaction xid, gid text, prepared timestamptz, owner name, database name);
TABLE pg_catalog.pg_proc OID 1255 (oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4,
    prorows float4, provariadic oid, prosupport regproc, prokind "char", prosecdef bool, proleakproof bool,
    proisstrict bool, proretset bool, provolatile "char", proparallel "char", pronargs int2, pronargdefaults int2,
    prorettype oid, proargtypes oidvector, proallargtypes oid[], proargmodes "char"[], proargnames text[],
    proargdefaults pg_node_tree, protrftypes oid[], prosrc text, probin text, prosqlbody pg_node_tree, proconfig
    text[], proacl aclitem[]);
TABLE pg_catalog.pg_publication OID 6104 (oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool,
    pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool);
TABLE pg_catalog.pg_publication_namespace OID 6237 (oid oid, pnpubid oid, pnnspid oid);
TABLE pg_catalog.pg_publication_rel OID 6106 (oid oid, prpubid oid, prrelid oid, prqual pg_node_tree, prattrs
    int2vector);
VIEW pg_catalog.pg_publication_tables (pubname name, schemaname name, tablename name, attnames name[], rowfilter
    text);
TABLE pg_catalog.pg_range OID 3541 (rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid,
    rngcanonical regproc, rngsubdiff regproc);
VIEW pg_catalog.pg_replication_slots (slot_name name, plugin name, slot_type text, datoid oid, database name,
    temporary bool, active bool, active_pid int4, xmin xid, catalog_xmin xid, restart_lsn pg_lsn, confirmed_flush_lsn
    pg_lsn, wal_status text, safe_wal_size int8, two_phase bool);
TABLE pg_catalog.pg_rewrite OID 2618 (oid oid, rulename name, ev_class oid, ev_type "char", ev_enabled "char",
    is_instead bool, ev_qual pg_node_tree, ev_action pg_node_tree);
VIEW pg_catalog.pg_roles (rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool,
    rolcanlogin bool, rolreplication bool, rolconnlimit int4, rolpassword text, rolvaliduntil timestamptz,
    rolbypassrls bool, rolconfig text[], oid oid);
VIEW pg_catalog.pg_rules (schemaname name, tablename name, rulename name, definition text);
TABLE pg_catalog.pg_seclabel OID 3596 (objoid oid, classoid oid, objsubid int4, provider text, label text);
TABLE pg_catalog.pg_sequence OID 2224 (seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8,
    seqmin int8, seqcache int8, seqcycle bool);
VIEW pg_catalog.pg_sequences (schemaname name, sequencename name, sequenceowner name, data_type regtype, start_value
    int8, min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8);
VIEW pg_catalog.pg_settings (name text, setting text, unit text, category text, short_desc text, extra_desc text,
    context text, vartype text, source text, min_val text, max_val text, enumvals text[], boot_val text, reset_val
    text, sourcefile text, sourceline int4, pending_restart bool);
TABLE pg_catalog.pg_shdepend OID 1214 (dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid,
    deptype "char");
TABLE pg_catalog.pg_shdescription OID 2396 (objoid oid, classoid oid, description text);
VIEW pg_catalog.pg_stat_activity (datid oid, datname name, pid int4, leader_pid int4, usesysid oid, usename name,
    application_name text, client_addr inet, client_hostname text, client_port int4, backend_start timestamptz,
    xact_start timestamptz, query_start timestamptz, state_change timestamptz, wait_event_type text, wait_event text,
    state text, backend_xid xid, backend_xmin xid, query_id int8, query text, backend_type text);
VIEW pg_catalog.pg_stat_all_tables (relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8,
    idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8, n_live_tup
    int8, n_dead_tup int8, n_mod_since_analyze int8, n_ins_since_vacuum int8, last_vacuum timestamptz, last_autovacuum
    timestamptz, last_analyze timestamptz, last_autoanalyze timestamptz, vacuum_count int8, autovacuum_count int8,
    analyze_count int8, autoanalyze_count int8);
VIEW pg_catalog.pg_stat_database (datid oid, datname name, numbackends int4, xact_commit int8, xact_rollback int8,
    blks_read int8, blks_hit int8, tup_returned int8, tup_fetched int8, tup_inserted int8, tup_updated int8,
    tup_deleted int8, conflicts int8, temp_files int8, temp_bytes int8, deadlocks int8, checksum_failures int8,
    checksum_last_failure timestamptz, blk_read_time float8, blk_write_time float8, session_time float8, active_time
    float8, idle_in_transaction_time float8, sessions int8, sessions_abandoned int8, sessions_fatal int8,
    sessions_killed int8, stats_reset timestamptz);
VIEW pg_catalog.pg_stat_replication (pid int4, usesysid oid, usename name, application_name text, client_addr inet,
    client_hostname text, client_port int4, backend_start timestamptz, backend_xmin xid, state text, sent_lsn pg_lsn,
    write_lsn pg_lsn, flush_lsn pg_lsn, replay_lsn pg_lsn, write_lag interval, flush_lag interval, replay_lag
    interval, sync_priority int4, sync_state text, reply_time timestamptz);
VIEW pg_catalog.pg_stat_ssl (pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, client_serial
    numeric, issuer_dn text);
VIEW pg_catalog.pg_stat_user_indexes (relid oid, indexrelid oid, schemaname name, relname name, indexrelname name,
    idx_scan int8, idx_tup_read int8, idx_tup_fetch int8);
VIEW pg_catalog.pg_stat_user_tables (relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8,
    idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8, n_live_tup
    int8, n_dead_tup int8, n_mod_since_analyze int8, n_ins_since_vacuum int8, last_vacuum timestamptz, last_autovacuum
    timestamptz, last_analyze timestamptz, last_autoanalyze timestamptz, vacuum_count int8, autovacuum_count int8,
    analyze_count int8, autoanalyze_count int8);
VIEW pg_catalog.pg_statio_user_tables (relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit
    int8, idx_blks_read int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, tidx_blks_read int8,
    tidx_blks_hit int8);
TABLE pg_catalog.pg_statistic_ext OID 3381 (oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid,
    stxstattarget int4, stxkeys int2vector, stxkind "char"[], stxexprs pg_node_tree);
VIEW pg_catalog.pg_stats (schemaname name, tablename name, attname name, inherited bool, null_frac float4, avg_width
    int4, n_distinct float4, most_common_vals anyarray, most_common_freqs float4[], histogram_bounds anyarray,
    correlation float4, most_common_elems anyarray, most_common_elem_freqs float4[], elem_count_histogram float4[]);
TABLE pg_catalog.pg_subscription OID 6100 (oid oid, subdbid oid, subskiplsn pg_lsn, subname name, subowner oid,
    subenabled bool, subbinary bool, substream bool, subtwophasestate "char", subdisableonerr bool, subconninfo text,
    subslotname name, subsynccommit text, subpublications text[]);
VIEW pg_catalog.pg_tables (schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool,
    hasrules bool, hastriggers bool, rowsecurity bool);
TABLE pg_catalog.pg_tablespace OID 1213 (oid oid, spcname name, spcowner oid, spcacl aclitem[], spcoptions text[]);
VIEW pg_catalog.pg_timezone_names (name text, abbrev text, utc_offset interval, is_dst bool);
TABLE pg_catalog.pg_trigger OID 2620 (oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2,
    tgenabled "char", tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool,
    tginitdeferred bool, tgnargs int2, tgattr int2vector, tgargs bytea, tgqual pg_node_tree, tgoldtable name,
    tgnewtable name);
TABLE pg_catalog.pg_ts_config OID 3602 (oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid);
TABLE pg_catalog.pg_ts_dict OID 3600 (oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid,
    dictinitoption text);
TABLE pg_catalog.pg_ts_parser OID 3601 (oid oid, prsname name, prsnamespace oid, prsstart regproc, prstoken regproc,
    prsend regproc, prsheadline regproc, prslextype regproc);
TABLE pg_catalog.pg_ts_template OID 3764 (oid oid, tmplname name, tmplnamespace oid, tmplinit regproc, tmpllexize
    regproc);
TABLE pg_catalog.pg_type OID 1247 (oid oid, typname name, typnamespace oid, typowner oid, typlen int2, typbyval bool,
    typtype "char", typcategory "char", typispreferred bool, typisdefined bool, typdelim "char", typrelid oid,
    typsubscript regproc, typelem oid, typarray oid, typinput regproc, typoutput regproc, typreceive regproc, typsend
    regproc, typmodin regproc, typmodout regproc, typanalyze regproc, typalign "char", typstorage "char", typnotnull
    bool, typbasetype oid, typtypmod int4, typndims int4, typcollation oid, typdefaultbin pg_node_tree, typdefault
    text, typacl aclitem[]);
VIEW pg_catalog.pg_user (usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool,
    passwd text, valuntil timestamptz, useconfig text[]);
TABLE pg_catalog.pg_user_mapping OID 1418 (oid oid, umuser oid, umserver oid, umoptions text[]);
VIEW pg_catalog.pg_user_mappings (umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions text[]);
VIEW pg_catalog.pg_views (schemaname name, viewname name, viewowner name, definition text);
