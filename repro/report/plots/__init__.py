"""Figures: what they show as data, and how matplotlib draws it."""
