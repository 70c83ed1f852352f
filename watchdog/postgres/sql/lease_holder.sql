-- Who holds the lease of this database, and our own pid to compare. A prepared transaction can hold it without any
-- session.
SELECT me.pid AS own_pid,
       l.locktype IS NOT NULL AS held,
       l.pid AS holder_pid,
       a.usesysid::pg_catalog.int8 AS holder_usesysid,
       a.application_name AS holder_application_name
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS me
LEFT JOIN pg_catalog.pg_locks AS l
    ON l.locktype = 'advisory' AND l.granted AND l.database = me.datid
   AND l.classid = %(space)s::pg_catalog.int8::pg_catalog.oid AND l.objid = %(key)s::pg_catalog.int8::pg_catalog.oid
   AND l.objsubid = 2
LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(l.pid) AS a ON l.pid IS NOT NULL
