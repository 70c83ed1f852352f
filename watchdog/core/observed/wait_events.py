"""The wait events that pgwatchdog tests for, under their names in `pg_stat_activity`."""

LOCK = "Lock"
"""Wait event type of a backend that waits for a heavyweight lock."""

EXTENSION = "Extension"
"""Wait event type of a backend that waits inside an extension, such as for the answer of a foreign server."""

CLIENT_READ = "ClientRead"
"""Wait event of a backend that waits to read data from its client."""

CLIENT_WRITE = "ClientWrite"
"""Wait event of a backend that waits until its client reads. A signal stays pending as long as it does."""

BACKUP_WAITS = frozenset({"BackupWaitWalArchive", "CheckpointStart", "CheckpointDone"})
"""Wait events of a backend that begins or ends a backup, or asks for a checkpoint. If it is cancelled while it waits
for the archive, there is no backup."""

SYNC_REP = "SyncRep"
"""Wait event of a commit that waits for a synchronous standby. A cancel would end the wait: the commit would stay local
and report success to its client."""
