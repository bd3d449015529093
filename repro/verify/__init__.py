"""Checks a record: runs its command again from its commit and compares the numbers. Needs no torch."""
