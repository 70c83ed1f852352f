"""The command line: one module per command. `wiring` and `assembly` connect the other packages."""
