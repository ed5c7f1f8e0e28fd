"""Readers that turn the public recipe files of training frameworks into the data of `windtunnel.stacks.recipes`."""
