"""The demo: an embedded Postgres server, client processes that cause orphans on it, and the cleanup of both.

A story is one such client: what it runs and how it leaves. The callers are ordinary database clients. The daemon that
watches them is built by `cli`; this package does not know it, except as a source of looks.
"""
