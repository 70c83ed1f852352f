-- Our own statement_timeout, before anything that takes longer than a role's own might allow.
SELECT pg_catalog.set_config('statement_timeout', %s, false) AS statement_timeout
