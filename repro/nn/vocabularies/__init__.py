"""Embeddings and heads."""
