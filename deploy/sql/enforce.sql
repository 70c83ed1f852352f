-- What pgwatchdog needs besides dry-run.sql before a cluster can be armed: the right to cancel other roles' queries. It
-- reaches every role but superusers. Membership in single roles (GRANT web_app TO pgwatchdog) is the narrower way: it
-- reaches those alone, and lets pgwatchdog do whatever they may.
GRANT pg_signal_backend TO pgwatchdog;
