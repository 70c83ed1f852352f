-- The settings that only managed services have. Only their names matter, not their values.
SELECT s.name AS name, s.setting AS setting
FROM pg_catalog.pg_settings AS s
WHERE s.name ~ '^(rds|cloudsql|azure|neon|supautils|cnpg)[.]'
