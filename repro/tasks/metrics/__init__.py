"""Scores, as metrics of torchmetrics: their states are summed over ranks."""
