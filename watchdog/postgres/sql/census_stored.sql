-- The settings stored for roles and databases. Every role may read them. NULL means every role or every database.
SELECT d.datname AS datname, r.rolname AS rolname, c.line AS line
FROM pg_catalog.pg_db_role_setting AS s
LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
CROSS JOIN LATERAL pg_catalog.unnest(s.setconfig) AS c(line)
WHERE (s.setdatabase = 0 OR d.oid IS NOT NULL)
  AND (s.setrole = 0 OR r.oid IS NOT NULL)
