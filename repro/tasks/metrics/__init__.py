"""Scores of generated texts as metrics of torchmetrics."""

from repro.tasks.metrics.texts import Meteor, Rouge, TextScore, UnigramF1, require_wordnet, words_of

__all__ = ["Meteor", "Rouge", "TextScore", "UnigramF1", "require_wordnet", "words_of"]
