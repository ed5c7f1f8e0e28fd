"""Stages and nodes of programs: which model, how many samples, which device."""
