"""Postgres as the daemon sees it: one session a cluster, read with SQL from files.

The daemon's only importer of psycopg. Every await that leaves the process has a deadline.
"""
