"""Scripts for Slurm and their submission."""
