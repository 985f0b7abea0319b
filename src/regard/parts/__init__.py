"""The parts of models: attention, masks, positions, recurrence, layers, and the sites that can be watched."""
