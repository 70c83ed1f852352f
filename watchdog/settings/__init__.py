"""Configuration: reads YAML and the environment into one frozen tree, or reports all problems, each with its place.

Other packages except `cli` do not import this one. The composition root in `cli` passes plain arguments to them.
"""
