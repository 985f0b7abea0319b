"""Tokens: text to integers and back, and batches of tokens for training and measuring."""
