"""The verbs, one file each. `regard.X` and `regard X` are one function: its arguments are the options."""
