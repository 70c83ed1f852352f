"""The ledger: the durable record of acts.

The intent of an act is committed before the signal is sent. Its result and outcome are written afterwards. The package
uses SQLAlchemy Core with one schema for SQLite and PostgreSQL. It knows the core's acts. It does not know clusters.
"""
