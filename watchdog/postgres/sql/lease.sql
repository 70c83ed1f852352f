-- Takes the lease. It runs once in a session, because each further success would need a release of its own.
SELECT pg_catalog.pg_try_advisory_lock(%(space)s, %(key)s) AS acquired
