"""Configuration: YAML and environment become one frozen tree, or every problem at once, each with its place.

No other room imports this one; the composition root hands them plain arguments.
"""
