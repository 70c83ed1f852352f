-- Names behind database oids.
SELECT d.oid::pg_catalog.int8, d.datname FROM pg_catalog.pg_database AS d
