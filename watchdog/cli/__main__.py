"""`python -m watchdog.cli`: the same as the command `pgwatchdog`."""

from watchdog.cli.main import main

main()
