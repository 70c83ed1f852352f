"""The ledger: every act on record, its intent durable before the signal, its outcome after.

SQLAlchemy Core, one schema for SQLite and PostgreSQL. Knows the core's acts, and nothing of
clusters.
"""
