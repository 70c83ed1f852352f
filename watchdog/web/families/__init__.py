"""The metric families, each a constant. `watchdog.web.table` puts them in order."""
