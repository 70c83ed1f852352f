-- The only statement that signals. It reads the slot of one backend and compares it with everything that was judged. It
-- signals only if all of it still holds. Otherwise the answer is the first condition that does not hold: CASE evaluates
-- them in this order. pg_stat_get_activity is called with the pid, because the view pg_stat_activity would first build
-- the rows of all backends, and the session could move on in that time.
-- A short race remains between reading the slot and sending the signal. No SQL can close it. Whether we hold the lease,
-- and the names that the role and the database have now, are read first, so that nothing comes between reading the slot
-- and the signal. A locked catalog makes the statement wait there, and fail after lock_timeout.
WITH l AS MATERIALIZED (
    SELECT %(manual)s OR EXISTS (
               SELECT FROM pg_catalog.pg_locks AS k
               WHERE k.locktype = 'advisory' AND k.granted AND k.pid = pg_catalog.pg_backend_pid()
                 AND k.classid = %(space)s::pg_catalog.int8::pg_catalog.oid
                 AND k.objid = %(key)s::pg_catalog.int8::pg_catalog.oid AND k.objsubid = 2
           ) AS ours,
           pg_catalog.pg_get_userbyid(%(role)s::pg_catalog.int8::pg_catalog.oid)::pg_catalog.text = %(role_name)s
           AND (
               SELECT d.datname::pg_catalog.text = %(database_name)s FROM pg_catalog.pg_database AS d
               WHERE d.oid = %(database)s::pg_catalog.int8::pg_catalog.oid
           ) AS named
)
SELECT CASE
    WHEN NOT l.ours THEN 'not_leader'
    WHEN l.named IS NOT TRUE THEN 'renamed'
    WHEN a.backend_start IS DISTINCT FROM %(backend_start)s THEN 'gone'
    WHEN a.backend_type IS DISTINCT FROM 'client backend'
      OR a.usesysid IS DISTINCT FROM %(role)s::pg_catalog.int8::pg_catalog.oid
      OR a.datid IS DISTINCT FROM %(database)s::pg_catalog.int8::pg_catalog.oid
      OR a.application_name IS DISTINCT FROM %(application_name)s
      OR a.state IS DISTINCT FROM %(state)s
      OR a.xact_start IS DISTINCT FROM %(transaction)s
      OR %(statement)s::pg_catalog.timestamptz IS NOT NULL
         AND CASE a.state WHEN 'active' THEN a.query_start ELSE a.state_change END IS DISTINCT FROM %(statement)s
    THEN 'moved_on'
    WHEN a.backend_xid IS NOT NULL AND NOT %(writers)s THEN 'writer'
    WHEN a.wait_event IN ('BackupWaitWalArchive', 'CheckpointStart', 'CheckpointDone') THEN 'backup'
    WHEN a.wait_event = 'SyncRep' THEN 'sync_rep'
    WHEN a.wait_event = 'ClientRead' THEN 'waits_for_client'
    WHEN COALESCE(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() -
             CASE WHEN a.state <> 'active' THEN a.state_change
                  WHEN %(by_run)s THEN LEAST(a.query_start, a.xact_start)
                  ELSE a.query_start END) < %(least_age)s, true) THEN 'moved_on'
    WHEN pg_catalog.pg_cancel_backend(a.pid) THEN 'signalled'
    ELSE 'gone'
END AS answer
FROM l
LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(%(pid)s) AS a
    ON l.ours AND l.named AND a.pid <> pg_catalog.pg_backend_pid()
