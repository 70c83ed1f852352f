"""The doctor: named checks of one server, and the SQL that closes what they find. Nothing else in the core uses it."""
