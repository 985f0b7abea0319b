"""Triton kernels. Each has an explicit body beside it, which is its specification and runs where Triton does not."""
