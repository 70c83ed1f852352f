"""What was read from a server and its host, as values: activity rows, the census, settings, sockets, commands.

Knows no budget and no rule. The lowest room of the core.
"""
