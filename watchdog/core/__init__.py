"""Pure functions and values: they judge a snapshot and decide what to do.

The core imports the standard library only. It reads no clock, does no I/O and writes no log.
"""
