"""Joins records with published numbers, and judges them."""
