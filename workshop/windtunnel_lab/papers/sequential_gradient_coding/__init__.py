"""Sequential gradient coding: repeats of what stragglers leave undone."""
