-- Makes a PostgreSQL 18 server answer as 19 does where that matters here: its progress function knows REPACK and refuses
-- CLUSTER. For a throw-away server with allow_system_table_mods=on; run it in every database that is connected to.
ALTER FUNCTION pg_catalog.pg_stat_get_progress_info(text) RENAME TO pg_stat_get_progress_info_before_19;
CREATE FUNCTION pg_catalog.pg_stat_get_progress_info(
    cmdtype text, OUT pid integer, OUT datid oid, OUT relid oid,
    OUT param1 bigint, OUT param2 bigint, OUT param3 bigint, OUT param4 bigint, OUT param5 bigint,
    OUT param6 bigint, OUT param7 bigint, OUT param8 bigint, OUT param9 bigint, OUT param10 bigint,
    OUT param11 bigint, OUT param12 bigint, OUT param13 bigint, OUT param14 bigint, OUT param15 bigint,
    OUT param16 bigint, OUT param17 bigint, OUT param18 bigint, OUT param19 bigint, OUT param20 bigint
) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    IF cmdtype NOT IN ('VACUUM', 'ANALYZE', 'REPACK', 'CREATE INDEX', 'BASEBACKUP', 'COPY', 'DATACHECKSUMS') THEN
        RAISE EXCEPTION 'invalid command name: "%"', cmdtype USING ERRCODE = '22023';
    END IF;
    IF cmdtype IN ('REPACK', 'DATACHECKSUMS') THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM pg_catalog.pg_stat_get_progress_info_before_19(cmdtype);
END $$;
