-- Our own role, its sessions, and the attributes that it does not need. may_use_reserved is NULL before PostgreSQL 16.
SELECT r.rolname AS rolname,
       r.rolsuper AS rolsuper,
       r.rolcreaterole AS rolcreaterole,
       r.rolcreatedb AS rolcreatedb,
       r.rolreplication AS rolreplication,
       r.rolbypassrls AS rolbypassrls,
       r.rolconnlimit AS rolconnlimit,
       (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_get_activity(NULL) AS a WHERE a.usesysid = r.oid)
           AS sessions,
       (SELECT pg_catalog.pg_has_role(CURRENT_USER, u.oid, 'USAGE')
        FROM pg_catalog.pg_roles AS u WHERE u.rolname = 'pg_use_reserved_connections') AS may_use_reserved
FROM pg_catalog.pg_roles AS r
WHERE r.rolname = CURRENT_USER
