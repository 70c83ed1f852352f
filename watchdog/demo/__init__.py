"""The demo: an embedded Postgres, stories played on it by separate client processes, everything cleaned up.

Its callers are clients of a database like any other; the daemon that watches them is the ordinary one.
"""
