-- The one statement that signals. It reads one backend's slot, holds everything that was judged against it, and signals
-- only if all of it still stands; the first thing that does not is the answer. CASE asks in this order. The function
-- is given the pid: the view would build every row of the server first, and by then the session has moved on.
-- A small race stays between the reading and the signal; no SQL can close it. Whether the lease is ours is read first,
-- from the server's own list of locks, so that nothing comes between the reading of the slot and the signal.
SELECT CASE
    WHEN NOT l.ours THEN 'not_leader'
    WHEN a.backend_start IS DISTINCT FROM %(backend_start)s THEN 'gone'
    WHEN a.backend_type IS DISTINCT FROM 'client backend'
      OR a.usesysid IS DISTINCT FROM %(role)s::pg_catalog.int8::pg_catalog.oid
      OR a.application_name IS DISTINCT FROM %(application_name)s
      OR a.state IS DISTINCT FROM %(state)s
      OR a.xact_start IS DISTINCT FROM %(transaction)s
      OR %(statement)s::pg_catalog.timestamptz IS NOT NULL
         AND CASE a.state WHEN 'active' THEN a.query_start ELSE a.state_change END IS DISTINCT FROM %(statement)s
    THEN 'moved_on'
    WHEN a.backend_xid IS NOT NULL AND NOT %(writers)s THEN 'writer'
    WHEN a.wait_event = 'SyncRep' THEN 'sync_rep'
    WHEN a.wait_event = 'ClientRead' THEN 'waits_for_client'
    WHEN COALESCE(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() -
             CASE WHEN a.state <> 'active' THEN a.state_change
                  WHEN %(by_run)s THEN LEAST(a.query_start, a.xact_start)
                  ELSE a.query_start END) < %(least_age)s, true) THEN 'moved_on'
    WHEN pg_catalog.pg_cancel_backend(a.pid) THEN 'signalled'
    ELSE 'gone'
END AS answer
FROM (
    SELECT %(manual)s OR EXISTS (
        SELECT FROM pg_catalog.pg_locks AS k
        WHERE k.locktype = 'advisory' AND k.granted AND k.pid = pg_catalog.pg_backend_pid()
          AND k.classid = %(space)s::pg_catalog.int8::pg_catalog.oid
          AND k.objid = %(key)s::pg_catalog.int8::pg_catalog.oid AND k.objsubid = 2
    ) AS ours
) AS l
LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(%(pid)s) AS a
    ON l.ours AND a.pid <> pg_catalog.pg_backend_pid()
