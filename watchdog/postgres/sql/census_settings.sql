-- What our own session began with: the server's value, unless something is stored for our role or our database.
SELECT s.name, s.reset_val, CURRENT_USER, pg_catalog.current_database()
FROM pg_catalog.pg_settings AS s
WHERE s.name = ANY (%s)
