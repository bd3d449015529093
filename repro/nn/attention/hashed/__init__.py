"""Attention that looks keys up by hashing."""
