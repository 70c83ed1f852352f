-- All roles, as far as they matter to an audit.
SELECT r.rolname AS rolname,
       r.rolcanlogin AS rolcanlogin,
       r.rolinherit AS rolinherit,
       r.rolsuper AS rolsuper,
       r.rolconnlimit AS rolconnlimit,
       r.rolcreaterole AS rolcreaterole,
       r.rolreplication AS rolreplication
FROM pg_catalog.pg_roles AS r
