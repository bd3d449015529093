"""Sublayers and stacks."""
