"""The verbs of the command line: each reads its options, calls the package, and prints for people or as JSON."""
