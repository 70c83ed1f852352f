-- Releases the lease. One call is enough, because the lease was taken once.
SELECT pg_catalog.pg_advisory_unlock(%(space)s, %(key)s) AS released
