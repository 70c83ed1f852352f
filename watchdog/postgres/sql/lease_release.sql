-- Let go of the lease. It was taken once, so one call is enough.
SELECT pg_catalog.pg_advisory_unlock(%(space)s, %(key)s) AS released
