-- Who is a member of which role, with what.
SELECT m.rolname AS member, r.rolname AS role, a.admin_option AS admin, a.inherit_option AS inherits
FROM pg_catalog.pg_auth_members AS a
JOIN pg_catalog.pg_roles AS m ON m.oid = a.member
JOIN pg_catalog.pg_roles AS r ON r.oid = a.roleid
