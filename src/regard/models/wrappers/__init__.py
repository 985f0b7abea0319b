"""Models that change another model and delegate the rest to it."""
