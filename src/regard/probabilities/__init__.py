"""Predictions to numbers and words."""
