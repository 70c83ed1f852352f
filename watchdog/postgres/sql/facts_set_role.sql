-- The NOINHERIT login roles, and the NOLOGIN roles that they can switch to by SET ROLE.
SELECT m.rolname AS member, r.rolname AS role
FROM pg_catalog.pg_auth_members AS a
JOIN pg_catalog.pg_roles AS m ON m.oid = a.member
JOIN pg_catalog.pg_roles AS r ON r.oid = a.roleid
WHERE m.rolcanlogin AND NOT m.rolinherit AND NOT r.rolcanlogin
ORDER BY 1, 2
