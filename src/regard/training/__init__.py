"""Training: tasks, the loop, optimisers, checkpoints, recipes."""
