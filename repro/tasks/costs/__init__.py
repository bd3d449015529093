"""Tasks that measure operations, memory and time."""
