"""Declared tests, of the papers' claims and of a cheaper arithmetic: what they fix, whether they are fair, outcomes."""
