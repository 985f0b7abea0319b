"""Speed of this machine and of regard on it, beside peers that are installed."""
