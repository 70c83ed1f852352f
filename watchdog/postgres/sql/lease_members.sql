-- Which of these roles are members of a login role, and so may cancel its queries.
SELECT u.oid::pg_catalog.int8 AS member
FROM pg_catalog.unnest(%(roles)s::pg_catalog.int8[]) AS u(oid)
WHERE EXISTS (
    SELECT FROM pg_catalog.pg_roles AS r
    WHERE r.rolcanlogin AND r.oid <> u.oid::pg_catalog.oid
      AND pg_catalog.pg_has_role(u.oid::pg_catalog.oid, r.oid, 'MEMBER')
)
