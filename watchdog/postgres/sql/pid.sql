-- Which server process answers. Behind a pooler it is not the one that announced itself, and nothing may be set.
SELECT pg_catalog.pg_backend_pid() AS pid
