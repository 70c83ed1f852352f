"""Policy: which findings are acted on, why an action is withheld, and what came of earlier acts.

This package uses the values of `observed` and `judging`. It sends no signal itself.
"""
