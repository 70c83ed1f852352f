"""A finished look as one value, and its presentations: records for JSON, and sentences for the user.

This package uses the values of `observed`, `judging` and `acting`. It knows no output format but these values.
"""
