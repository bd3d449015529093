"""Recordings and their transcripts."""
