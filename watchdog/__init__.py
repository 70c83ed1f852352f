"""pgwatchdog: watches Postgres for queries that run on after their callers have given up."""
