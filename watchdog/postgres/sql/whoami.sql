-- Which server process answers, and as which login role. Behind a pooler the process is not the one that
-- announced itself when the connection was opened.
SELECT a.pid, a.usesysid::pg_catalog.int8
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
