"""Training by committed recipes against training by the official codes, update by update."""
