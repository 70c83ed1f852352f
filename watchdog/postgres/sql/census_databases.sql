-- The names of the databases by oid, and the statistics that the server keeps for each.
SELECT d.oid::pg_catalog.int8 AS oid,
       d.datname AS datname,
       pg_catalog.pg_stat_get_db_active_time(d.oid) / 1000.0::pg_catalog.float8 AS active_seconds,
       pg_catalog.pg_stat_get_db_sessions_abandoned(d.oid) AS sessions_abandoned
FROM pg_catalog.pg_database AS d
