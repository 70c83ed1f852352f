"""The doctor: named checks of one server, and the SQL that corrects what they find.

No other package of the core uses this one. It sends no statement: it compares facts and gives SQL as text.
"""
