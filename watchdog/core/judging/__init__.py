"""The judge: which budget applies to a row, and which rows are orphans, duplicates, nearing or holding.

Reads `observed`. Knows nothing of rules, limits or acts.
"""
