-- Who stands directly in the way of each waiter, all in one pass. Pid 0 is a prepared transaction.
SELECT w.pid AS pid, pg_catalog.pg_blocking_pids(w.pid) AS blocking_pids
FROM pg_catalog.unnest(%s::pg_catalog.int4[]) AS w(pid)
