"""Generated sequences with known answers."""
