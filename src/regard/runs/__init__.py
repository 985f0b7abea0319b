"""Training, measuring and keeping models: the verbs of the package, as Python functions."""
