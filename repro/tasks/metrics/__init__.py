"""Scores, as metrics of torchmetrics: a rank is one more term of their states."""
