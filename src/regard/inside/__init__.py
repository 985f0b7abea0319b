"""Looking: numbers and strings in, pictures out."""
