"""Memories of compressed vectors."""
