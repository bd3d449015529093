"""An experiment is a resolved recipe and a seed: build it, run it, resume it, record it."""
