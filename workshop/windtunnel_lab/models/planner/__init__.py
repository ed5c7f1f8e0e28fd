"""Searches over layers and places of workers."""
