-- All roles, with the attributes that the audit needs.
SELECT r.rolname AS rolname,
       r.rolcanlogin AS rolcanlogin,
       r.rolinherit AS rolinherit,
       r.rolsuper AS rolsuper,
       r.rolconnlimit AS rolconnlimit,
       r.rolcreaterole AS rolcreaterole,
       r.rolreplication AS rolreplication
FROM pg_catalog.pg_roles AS r
