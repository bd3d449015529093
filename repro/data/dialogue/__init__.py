"""Conversations about documents."""
