"""Evidence from the kernel: which clients of a server still hold their end of the connection.

Works where we share the server's network namespace (sidecar, same host), without any privilege. Says "unknown" where it
cannot know. Knows the core's values and nothing of clusters.
"""
