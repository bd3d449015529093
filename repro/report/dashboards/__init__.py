"""Dashboards on W&B, from code."""
