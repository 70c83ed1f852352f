-- Who holds the lease's key, in this database and in others, whether that role could signal, and our own pid to compare.
-- A prepared transaction can hold the key without any session; it also holds the lock on its own transaction id, under
-- the same virtual transaction. A superuser has the rights of every role. Those who could signal come first.
SELECT me.pid AS own_pid,
       l.locktype IS NOT NULL AS held,
       l.database IS NOT DISTINCT FROM me.datid AS here,
       l.database::pg_catalog.int8 AS database,
       l.pid AS holder_pid,
       h.role::pg_catalog.int8 AS holder_usesysid,
       p.gid AS gid,
       l.pid IS NOT NULL
           AND (h.role = me.usesysid OR pg_catalog.pg_has_role(h.role, 'pg_signal_backend', 'MEMBER')) IS TRUE
           AS may_signal
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS me
LEFT JOIN pg_catalog.pg_locks AS l
    ON l.locktype = 'advisory' AND l.granted
   AND l.classid = %(space)s::pg_catalog.int8::pg_catalog.oid AND l.objid = %(key)s::pg_catalog.int8::pg_catalog.oid
   AND l.objsubid = 2
LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(l.pid) AS a ON l.pid IS NOT NULL
LEFT JOIN pg_catalog.pg_locks AS x
    ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.granted
   AND x.virtualtransaction = l.virtualtransaction
LEFT JOIN pg_catalog.pg_prepared_xact() AS p ON p.transaction = x.transactionid
CROSS JOIN LATERAL (SELECT COALESCE(a.usesysid, p.ownerid) AS role) AS h
ORDER BY may_signal DESC, here DESC
