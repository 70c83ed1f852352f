-- Sets the settings of our own session. Our role or database may have others: a short idle_session_timeout, or a
-- search_path with a schema in which anybody can create objects. jit is off, because it costs more than it saves for
-- statements of a millisecond. Without a generic plan the poll would be planned anew each time, which takes as long as
-- the poll itself. A backend that waits to send us its answer is not idle, so idle_session_timeout does not end it. If
-- our host has vanished meanwhile, tcp_user_timeout ends that backend, and our hold on the lease with it. From 17 on a
-- stored transaction_timeout would end our session in a statement that takes longer.
SELECT pg_catalog.set_config('search_path', 'pg_catalog', false) AS search_path,
       pg_catalog.set_config('lock_timeout', '200', false) AS lock_timeout,
       pg_catalog.set_config('idle_session_timeout', %s, false) AS idle_session_timeout,
       pg_catalog.set_config('jit', 'off', false) AS jit,
       pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false) AS plan_cache_mode,
       pg_catalog.set_config('TimeZone', 'UTC', false) AS timezone,
       pg_catalog.set_config('tcp_keepalives_idle', '30', false) AS tcp_keepalives_idle,
       pg_catalog.set_config('tcp_keepalives_interval', '10', false) AS tcp_keepalives_interval,
       pg_catalog.set_config('tcp_keepalives_count', '3', false) AS tcp_keepalives_count,
       pg_catalog.set_config('tcp_user_timeout', %s, false) AS tcp_user_timeout,
       pg_catalog.set_config('transaction_timeout', '0', false) AS transaction_timeout
