-- The pid of the backend that answers. Behind a pooler it is not the pid that was announced when the connection began,
-- and no setting may be changed.
SELECT pg_catalog.pg_backend_pid() AS pid
