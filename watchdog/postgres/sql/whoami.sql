-- The pid of the backend that answers, its login role, and the four ends of our connection as the server sees them.
SELECT a.pid AS pid,
       a.usesysid::pg_catalog.int8 AS usesysid,
       pg_catalog.host(a.client_addr) AS client_addr,
       a.client_port AS client_port,
       pg_catalog.host(pg_catalog.inet_server_addr()) AS server_addr,
       pg_catalog.inet_server_port() AS server_port
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
