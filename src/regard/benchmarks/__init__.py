"""Speed of this machine and of regard on it, beside peers that are installed."""

NAMES = (
    "train-transformer",
    "train-lstm",
    "evaluate",
    "generate-1",
    "generate-16",
    "look",
    "count-ngrams",
    "score-ngrams",
)
"""The names of the contests. They stand here because `regard list` does not import torch."""
