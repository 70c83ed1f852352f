"""`python -m watchdog.cli` runs the command `pgwatchdog`."""

from watchdog.cli.main import main

main()
