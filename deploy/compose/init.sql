-- For trying out: the password is in this file. A real one comes from a secret.
CREATE ROLE pgwatchdog LOGIN PASSWORD 'pgwatchdog' CONNECTION LIMIT 5;
GRANT pg_monitor TO pgwatchdog;
