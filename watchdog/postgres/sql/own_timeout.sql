-- Sets our own statement_timeout. It comes first, because that of our role may be too short for longer statements.
SELECT pg_catalog.set_config('statement_timeout', %s, false) AS statement_timeout
