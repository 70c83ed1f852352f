"""Evidence from the kernel: which clients of a server still hold their end of the connection.

It works if we share the server's network namespace (sidecar, same host), and needs no privilege. If the sockets cannot
be seen, it says so. It knows the core's values and nothing of clusters.
"""
