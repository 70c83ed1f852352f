-- Which of these backends are still there. The poll does not show it, because it leaves out idle sessions.
-- If a backend's first word is to be read, first_word is the first word of its query behind blanks, parentheses and
-- comments. in_progress is true if a progress view lists the backend. The query text itself stays on the server.
-- first_word is NULL if it cannot be read: no privilege, track_activities off, a comment that is nested or cut, or a
-- text that is cut inside its first word. The C collation is used, because upper() follows other rules for the letter i
-- in a Turkish locale.
-- From 19 on the progress function knows REPACK instead of CLUSTER, and raises an error for the word CLUSTER.
SELECT a.pid AS pid,
       a.backend_start AS backend_start,
       a.query_start AS query_start,
       i.read AS read,
       CASE WHEN i.read AND (
                     pg_catalog.octet_length(a.query) < pg_catalog.pg_size_bytes(
                         pg_catalog.current_setting('track_activity_query_size')) - 1
                     OR pg_catalog.substring(a.query COLLATE "C", %(whole_word)s) IS NOT NULL)
            THEN pg_catalog.upper(pg_catalog.substring(a.query COLLATE "C", %(word)s)) END AS first_word,
       a.pid = ANY (w.pids) AS in_progress
FROM (
    SELECT ARRAY(
        SELECT p.pid
        FROM pg_catalog.unnest('{VACUUM,ANALYZE,REPACK,CREATE INDEX}'::pg_catalog.text[]) AS c(command)
        CROSS JOIN LATERAL pg_catalog.pg_stat_get_progress_info(c.command) AS p
    ) AS pids
) AS w
CROSS JOIN ROWS FROM (
    pg_catalog.unnest(%(pids)s::pg_catalog.int4[]), pg_catalog.unnest(%(read)s::pg_catalog.bool[])
) AS i(pid, read)
CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(i.pid) AS a
