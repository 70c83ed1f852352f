-- Take the lease. Once per session: each success would add a level.
SELECT pg_catalog.pg_try_advisory_lock(%(space)s, %(key)s) AS acquired
