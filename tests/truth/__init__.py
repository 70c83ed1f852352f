"""A workload whose truth is known: every caller writes down when it stopped waiting."""
