-- Prepared transactions, the number of conflicts with recovery so far, the application names of all other client
-- sessions, idle ones included, those of the given schemas that exist in this database, and whether everybody may
-- connect to it. A database without an access list has the default one.
SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_xact()) AS prepared_transactions,
       (SELECT EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - pg_catalog.min(p.prepared))::pg_catalog.float8
        FROM pg_catalog.pg_prepared_xact() AS p) AS oldest_prepared_age,
       (SELECT COALESCE(pg_catalog.sum(pg_catalog.pg_stat_get_db_conflict_all(d.oid)), 0)::pg_catalog.int8
        FROM pg_catalog.pg_database AS d) AS conflicts,
       ARRAY(SELECT COALESCE(a.application_name, '') FROM pg_catalog.pg_stat_get_activity(NULL) AS a
             WHERE a.backend_type = 'client backend' AND a.pid <> pg_catalog.pg_backend_pid()) AS application_names,
       ARRAY(SELECT n.nspname::pg_catalog.text FROM pg_catalog.pg_namespace AS n
             WHERE n.nspname = ANY (%s)) AS schemas,
       EXISTS (
           SELECT FROM pg_catalog.pg_database AS d,
               LATERAL pg_catalog.aclexplode(COALESCE(d.datacl, pg_catalog.acldefault('d', d.datdba))) AS x
           WHERE d.datname = pg_catalog.current_database() AND x.grantee = 0 AND x.privilege_type = 'CONNECT'
       ) AS public_connects
