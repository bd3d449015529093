"""Tokenisers and vocabularies."""
