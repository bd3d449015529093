"""Optimisers, schedules, and initialisations that need a pass."""
