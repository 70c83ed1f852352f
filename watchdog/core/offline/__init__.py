"""What is computed beside the daemon: the doctor's audit and the chain of callers. Nothing on the spine imports it."""
