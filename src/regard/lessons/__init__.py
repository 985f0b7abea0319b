"""The lectures' worked examples, executable: every number comes out of the library's own parts and models."""
