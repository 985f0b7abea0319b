"""Triton kernels. The specification of each is a function in parts/ that also runs without Triton."""
