"""A run is a model with its tokenizers and its history. `run` is the value; `formats` reads and writes it."""
