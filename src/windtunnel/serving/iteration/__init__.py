"""Seconds of one iteration of an engine: layers, attention, overlap, power cap."""
