"""The judge: which budget applies to a row, and which rows are orphans, duplicates, nearing or holding.

This package uses the values of `observed`. It knows nothing of rules, limits or acts.
"""
