-- The system identifier of the cluster, which initdb has made. A standby and a restored copy share it.
SELECT s.system_identifier AS system_identifier FROM pg_catalog.pg_control_system() AS s
