"""What was read from a server and its host, as values: activity rows, the census, settings, sockets, commands.

This package knows no budget and no rule. It imports no other package of the core.
"""
