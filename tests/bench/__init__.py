"""Benchmarks: each measures this watchdog and what one would use instead side by side, in one run."""
