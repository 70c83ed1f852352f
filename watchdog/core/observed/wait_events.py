"""The wait events that are compared, by the names that `pg_stat_activity` gives them, each once."""

LOCK = "Lock"
"""Wait event type: the backend waits for a heavyweight lock."""

CLIENT_READ = "ClientRead"
"""The server waits for its own client to send something."""

SYNC_REP = "SyncRep"
"""A commit waits for a synchronous standby. A cancel would turn it into a local commit that reports success."""
