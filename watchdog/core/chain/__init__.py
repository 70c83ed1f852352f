"""The caller chain as arithmetic: copies of a query, the time for which they run as orphans, and retry loops.

No other package of the core uses this one. It uses no facts of a server.
"""
