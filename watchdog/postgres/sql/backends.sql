-- Which of these backends are still there. The poll does not show it, because it leaves out idle sessions.
-- If a backend's commands are to be read, words are the first words of all commands in its query: one text may hold
-- several, separated by semicolons. Quoted strings and comments are taken out before the text is split, unless it is
-- plain: without a semicolon, and with a first word that says all. That is so for most, and takes a tenth of the time.
-- in_progress is true if a progress view lists the backend. The query text itself stays on the server.
-- words is NULL if they cannot be read: no privilege, track_activities off, a nested comment, several commands with a
-- quote behind a backslash or a dollar quote with a tag, or a text that is cut inside a first word or behind a semicolon.
-- The C collation is used, because upper() follows other rules for the letter i in a Turkish locale.
-- From 19 on the progress function knows REPACK instead of CLUSTER, and raises an error for the word CLUSTER.
SELECT a.pid AS pid,
       a.backend_start AS backend_start,
       a.query_start AS query_start,
       i.read AS read,
       CASE WHEN NOT i.read OR t.plain IS NULL THEN NULL
            WHEN t.plain THEN
                CASE WHEN NOT t.cut OR t.query ~ %(whole_first_word)s THEN ARRAY[t.first_word] END
            WHEN NOT (pg_catalog.strpos(t.query, ';') > 0 AND t.query ~ %(escaped_quote)s
                    OR b.bare ~ %(several)s AND b.bare ~ %(left_over)s
                    OR b.bare ~ %(open_comment)s
                    OR t.cut AND (b.bare ~ %(behind_semicolon)s OR NOT b.bare ~ %(whole_word)s))
            THEN ARRAY(
                SELECT CASE WHEN w.word IS NULL THEN ''
                            WHEN s.command ~* %(create_table_as)s THEN 'CREATE TABLE AS'
                            WHEN s.command ~* %(select_into)s THEN 'SELECT INTO'
                            WHEN s.command ~* %(copy_from)s THEN 'COPY FROM'
                            WHEN w.word IN ('WITH', 'EXPLAIN') AND s.command ~* %(writes_inside)s THEN 'WITH INSERT'
                            ELSE w.word END
                FROM pg_catalog.regexp_split_to_table(b.bare, ';') AS s(command)
                CROSS JOIN LATERAL (SELECT pg_catalog.upper(pg_catalog.substring(s.command, %(word)s)) AS word) AS w
                WHERE s.command ~ '[^[:space:]()]')
            END AS words,
       a.pid = ANY (p.pids) AS in_progress
FROM (
    SELECT ARRAY(
        SELECT p.pid
        FROM pg_catalog.unnest('{VACUUM,ANALYZE,REPACK,CREATE INDEX,BASEBACKUP}'::pg_catalog.text[]) AS c(command)
        CROSS JOIN LATERAL pg_catalog.pg_stat_get_progress_info(c.command) AS p
    ) AS pids
) AS p
CROSS JOIN ROWS FROM (
    pg_catalog.unnest(%(pids)s::pg_catalog.int4[]), pg_catalog.unnest(%(read)s::pg_catalog.bool[])
) AS i(pid, read)
CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(i.pid) AS a
CROSS JOIN LATERAL (
    SELECT q.*,
           NOT (pg_catalog.strpos(q.query, ';') > 0
                OR COALESCE(q.first_word IN ('CREATE', 'COPY', 'EXPLAIN')
                            OR q.first_word = 'SELECT' AND q.query ~* %(into)s
                            OR q.first_word = 'WITH' AND q.query ~* %(writes_inside)s, false)) AS plain
    FROM (
        SELECT a.query COLLATE "C" AS query,
               pg_catalog.upper(pg_catalog.substring(a.query COLLATE "C", %(first_word)s)) AS first_word,
               pg_catalog.octet_length(a.query) >= pg_catalog.pg_size_bytes(
                   pg_catalog.current_setting('track_activity_query_size')) - 1 AS cut
    ) AS q
) AS t
-- Strings and comments become a blank, identifiers in quotes a letter.
CROSS JOIN LATERAL (
    SELECT CASE WHEN i.read AND NOT t.plain THEN pg_catalog.regexp_replace(
        pg_catalog.regexp_replace(t.query, %(quoted)s, ' \2', 'g'), %(identifier)s, 'q', 'g') END AS bare
) AS b
