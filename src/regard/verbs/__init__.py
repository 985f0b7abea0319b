"""The verbs, one file each. `regard.X` and `regard X` are the same function: its typed arguments are the options."""
