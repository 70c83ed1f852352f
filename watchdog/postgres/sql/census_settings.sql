-- The values that our own session started with. They are the server's unless a setting is stored for our role or our
-- database.
SELECT s.name AS name, s.reset_val AS reset_val, CURRENT_USER AS rolname, pg_catalog.current_database() AS datname
FROM pg_catalog.pg_settings AS s
WHERE s.name = ANY (%s)
