"""Sentences and their parse trees."""
