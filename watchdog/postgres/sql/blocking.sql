-- The pids that directly block each waiter, for all waiters in one statement. Pid 0 stands for a prepared transaction.
-- For a pid that is no client of the poll it is asked whether pg_blocking_pids() can answer: it is empty for the process
-- that replays WAL, which waits for sessions all the same, and nothing is known of a row that is hidden from us or gone.
SELECT w.pid AS pid,
       pg_catalog.pg_blocking_pids(w.pid) AS blocking_pids,
       %(outside)s AND COALESCE(
           (SELECT a.backend_type FROM pg_catalog.pg_stat_get_activity(w.pid) AS a) IN ('startup'), true) AS opaque
FROM pg_catalog.unnest(%(pids)s::pg_catalog.int4[]) AS w(pid)
