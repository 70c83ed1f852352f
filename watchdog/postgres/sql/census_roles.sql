-- The names of the roles by oid, whether each is a superuser, and whether we may cancel the queries of a login role
-- because we are a member of it.
SELECT r.oid::pg_catalog.int8 AS oid,
       r.rolname AS rolname,
       r.rolsuper AS rolsuper,
       r.rolcanlogin AND r.rolname <> CURRENT_USER AND pg_catalog.pg_has_role(CURRENT_USER, r.oid, 'USAGE')
           AS may_cancel
FROM pg_catalog.pg_roles AS r
