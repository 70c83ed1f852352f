-- How our own session is encrypted.
SELECT s.ssl AS ssl, s.version AS version, g.encrypted AS gss_encrypted
FROM pg_catalog.pg_stat_ssl AS s
JOIN pg_catalog.pg_stat_gssapi AS g ON g.pid = s.pid
WHERE s.pid = pg_catalog.pg_backend_pid()
