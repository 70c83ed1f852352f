-- All roles, as far as they matter to an audit.
SELECT r.rolname, r.rolcanlogin, r.rolinherit, r.rolsuper, r.rolconnlimit
FROM pg_catalog.pg_roles AS r
