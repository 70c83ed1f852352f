-- Which of these sessions are still there: a row that is idle is in no poll. And for those to be read, the first word of
-- what the backend runs, behind blanks, parentheses and comments, and whether a progress view names it. The text itself
-- stays on the server. NULL where the word cannot be read: no right, tracking off, a comment that is nested or cut, a
-- text that is cut inside its first word. In the C locale: a Turkish one has letters of its own.
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
        FROM pg_catalog.unnest('{VACUUM,ANALYZE,CLUSTER,CREATE INDEX}'::pg_catalog.text[]) AS c(command)
        CROSS JOIN LATERAL pg_catalog.pg_stat_get_progress_info(c.command) AS p
    ) AS pids
) AS w
CROSS JOIN ROWS FROM (
    pg_catalog.unnest(%(pids)s::pg_catalog.int4[]), pg_catalog.unnest(%(read)s::pg_catalog.bool[])
) AS i(pid, read)
CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(i.pid) AS a
