-- The pids that directly block each waiter, for all waiters in one statement. Pid 0 stands for a prepared transaction.
SELECT w.pid AS pid, pg_catalog.pg_blocking_pids(w.pid) AS blocking_pids
FROM pg_catalog.unnest(%s::pg_catalog.int4[]) AS w(pid)
