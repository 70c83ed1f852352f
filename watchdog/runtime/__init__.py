"""What runs: one look after another on each cluster, each cluster by itself. Knows ports, no driver."""
