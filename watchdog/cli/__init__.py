"""The command line: one file per command. `wiring` alone sees every room."""
