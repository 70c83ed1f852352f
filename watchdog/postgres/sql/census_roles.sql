-- Names behind role oids, and who is a superuser.
SELECT r.oid::pg_catalog.int8, r.rolname, r.rolsuper FROM pg_catalog.pg_roles AS r
