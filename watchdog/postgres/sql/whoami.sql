-- The pid of the backend that answers, its login role, and our client address and port as the server sees them.
SELECT a.pid AS pid,
       a.usesysid::pg_catalog.int8 AS usesysid,
       pg_catalog.host(a.client_addr) AS client_addr,
       a.client_port AS client_port
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
