"""Position encodings."""
