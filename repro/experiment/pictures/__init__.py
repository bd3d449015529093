"""Pictures of attention and of memories of trained networks."""
