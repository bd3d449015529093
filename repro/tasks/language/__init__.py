"""Shared parts of language models and conversations: protocols, reading in blocks, replies, effective context."""
