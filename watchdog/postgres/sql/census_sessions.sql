-- Counts of the sessions that no poll can judge and of the connections in use, and our privileges. A row that is hidden
-- from us has no state, and its query is a fixed marker. Both are tested, because a session that has just started has
-- no state either.
SELECT pg_catalog.count(*) FILTER (WHERE s.hidden) AS hidden,
       pg_catalog.array_agg(DISTINCT s.usesysid::pg_catalog.int8) FILTER (WHERE s.hidden) AS hidden_usesysids,
       pg_catalog.count(*) FILTER (WHERE s.state = 'disabled' AND s.backend_type = 'client backend') AS tracking_off,
       pg_catalog.count(*) FILTER (WHERE s.backend_type = 'client backend' OR s.hidden) AS connections_used,
       pg_catalog.current_setting('max_connections')::pg_catalog.int8 AS max_connections,
       pg_catalog.pg_has_role(CURRENT_USER, 'pg_read_all_stats', 'USAGE') AS sees_all,
       pg_catalog.pg_has_role(CURRENT_USER, 'pg_signal_backend', 'USAGE') AS may_cancel_all,
       pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS may_read_identity
FROM (
    SELECT a.*,
           a.state IS NULL AND a.query = '<insufficient privilege>' AND a.usesysid IS NOT NULL AS hidden
    FROM pg_catalog.pg_stat_get_activity(NULL) AS a
) AS s
