"""Access to PostgreSQL: one session for each cluster, and SQL statements that are read from files.

This is the daemon's only package that imports psycopg. Every await on something outside the process has a deadline.
It does not judge rows and does not decide on acts.
"""
