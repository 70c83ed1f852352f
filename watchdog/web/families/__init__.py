"""The metric families. Each is a constant. `watchdog.web.table` defines their order."""
