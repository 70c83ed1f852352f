-- PostgreSQL 16 and later, with reserved_connections above 0 (needs a restart of the server): lets pgwatchdog in when all
-- ordinary connections are taken, which is when it is needed most.
GRANT pg_use_reserved_connections TO pgwatchdog;
