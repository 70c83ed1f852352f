"""`python -m watchdog.cli` runs the command `pgwatchdog`."""

from watchdog.cli.entry import main

main()
