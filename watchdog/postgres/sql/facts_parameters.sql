-- Settings that only a managed service has; their values do not matter.
SELECT s.name AS name, s.setting AS setting
FROM pg_catalog.pg_settings AS s
WHERE s.name ~ '^(rds|cloudsql|azure|neon|supautils|cnpg)[.]'
