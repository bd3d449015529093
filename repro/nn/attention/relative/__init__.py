"""Attention with relative positions and a memory."""
