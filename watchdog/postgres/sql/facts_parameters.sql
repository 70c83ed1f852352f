-- The settings that only managed services have: those that begin with one of the given prefixes.
SELECT s.name AS name, s.setting AS setting
FROM pg_catalog.pg_settings AS s
WHERE EXISTS (SELECT FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS p (prefix)
              WHERE pg_catalog.starts_with(s.name, p.prefix))
