"""Policy: which findings are acted on, why an action is withheld, and what came of earlier acts.

Reads `observed` and `judging`. Signals nothing itself.
"""
