-- One poll: the client backends that run a statement or are in a transaction, each with the columns of the header.
-- If there are none, one row is returned with the header alone. So the server's clock and our right to see all rows are
-- known from every poll, and a right that was lost since the last poll shows.
-- Sparse: backends are found by id, and each row found costs one pass over the backend slots. Full: one pass for all
-- rows, which is cheaper if more than a sixth of all connections run something. Ages are computed by date_part in
-- floating point. EXTRACT would compute them in numeric, which takes up to a third of the cost of the poll.
-- No catalog is joined, because a locked pg_authid must not block the poll. The census gives the oids their names.
WITH header AS MATERIALIZED (
    SELECT pg_catalog.clock_timestamp() AS at,
           pg_catalog.pg_postmaster_start_time() AS postmaster_start,
           pg_catalog.pg_is_in_recovery() AS in_recovery,
           pg_catalog.pg_has_role(CURRENT_USER, 'pg_read_all_stats', 'USAGE') AS sees_all
)
SELECT h.at AS at,
       h.postmaster_start AS postmaster_start,
       h.in_recovery AS in_recovery,
       h.sees_all AS sees_all,
       a.pid AS pid,
       a.backend_start AS backend_start,
       a.usesysid::pg_catalog.int8 AS usesysid,
       a.datid::pg_catalog.int8 AS datid,
       a.application_name AS application_name,
       a.state AS state,
       a.wait_event_type AS wait_event_type,
       a.wait_event AS wait_event,
       a.query_start AS query_start,
       GREATEST(0::pg_catalog.float8, pg_catalog.date_part('epoch', h.at OPERATOR(pg_catalog.-) a.query_start))
           AS query_age,
       a.xact_start AS xact_start,
       GREATEST(0::pg_catalog.float8, pg_catalog.date_part('epoch', h.at OPERATOR(pg_catalog.-) a.xact_start))
           AS xact_age,
       a.state_change AS state_change,
       GREATEST(0::pg_catalog.float8, pg_catalog.date_part('epoch', h.at OPERATOR(pg_catalog.-) a.state_change))
           AS state_change_age,
       a.backend_xid IS NOT NULL AS has_xid,
       a.query_id AS query_id,
       pg_catalog.host(a.client_addr) AS client_addr,
       a.client_port AS client_port
FROM header AS h
LEFT JOIN (
    SELECT s.*
    FROM pg_catalog.pg_stat_get_backend_idset() AS i(id)
    CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(pg_catalog.pg_stat_get_backend_pid(i.id)) AS s
    WHERE %(sparse)s
      AND pg_catalog.pg_stat_get_backend_xact_start(i.id) IS NOT NULL
    UNION ALL
    SELECT s.*
    FROM pg_catalog.pg_stat_get_activity(NULL) AS s
    WHERE NOT %(sparse)s
) AS a
    ON a.backend_type = 'client backend'
   AND a.xact_start IS NOT NULL
   AND a.state <> 'idle'
   AND a.pid <> pg_catalog.pg_backend_pid()
   AND NOT (a.application_name = 'pgwatchdog' AND a.usesysid = %(own_role)s::pg_catalog.int8::pg_catalog.oid)
