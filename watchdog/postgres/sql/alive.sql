-- Which of these sessions are still there: their rows are idle, so no poll reads them.
SELECT a.pid, a.backend_start
FROM pg_catalog.unnest(%s::pg_catalog.int4[]) AS p(pid)
CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(p.pid) AS a
