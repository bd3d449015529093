"""Proteins and their families."""
