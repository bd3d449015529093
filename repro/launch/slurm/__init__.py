"""Scripts for Slurm, and how they are submitted."""
