"""The caller chain as arithmetic: copies, orphaned minutes, retry loops. Nothing else in the core uses it."""
