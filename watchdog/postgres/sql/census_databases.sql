-- Names behind database oids, and what the server itself counts for each.
SELECT d.oid::pg_catalog.int8, d.datname,
       pg_catalog.pg_stat_get_db_active_time(d.oid) / 1000.0::pg_catalog.float8,
       pg_catalog.pg_stat_get_db_sessions_abandoned(d.oid)
FROM pg_catalog.pg_database AS d
