-- The role that pgwatchdog connects as. Run it as superuser (or CREATEROLE with the grants named here), once per
-- server; replicas get it by replication. Put a password in, or create it without one and use certificates.
CREATE ROLE pgwatchdog LOGIN PASSWORD 'change me' CONNECTION LIMIT 5;

-- To see what other roles' sessions do. No table becomes readable by it.
GRANT pg_monitor TO pgwatchdog;

-- To get in when all ordinary connections are taken, which is when it is needed most. Takes effect with
-- reserved_connections above 0, and that needs a restart of the server.
GRANT pg_use_reserved_connections TO pgwatchdog;
