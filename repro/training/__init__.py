"""The callbacks around training: curves, checkpoints, stopping, random states."""
