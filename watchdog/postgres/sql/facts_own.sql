-- Our own role, its sessions, and the attributes that it does not need. may_use_reserved is NULL before PostgreSQL 16.
-- password_ends is the time until the password expires, in seconds: negative if it has, NULL if it does not.
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
        FROM pg_catalog.pg_roles AS u WHERE u.rolname = 'pg_use_reserved_connections') AS may_use_reserved,
       ARRAY(SELECT h.rolname::pg_catalog.text FROM pg_catalog.pg_roles AS h
             WHERE h.oid <> r.oid AND pg_catalog.pg_has_role(CURRENT_USER, h.oid, 'USAGE')) AS has_roles,
       CASE WHEN pg_catalog.isfinite(r.rolvaliduntil)
            THEN EXTRACT(EPOCH FROM r.rolvaliduntil - pg_catalog.clock_timestamp())::pg_catalog.float8
            END AS password_ends
FROM pg_catalog.pg_roles AS r
WHERE r.rolname = CURRENT_USER
