"""Prepared data on disk: how stores are made, checked and opened."""
