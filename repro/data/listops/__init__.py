"""Nested list operations."""
