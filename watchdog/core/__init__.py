"""The pure floor: what a snapshot means. Standard library only; no clock, no I/O, no logging."""
