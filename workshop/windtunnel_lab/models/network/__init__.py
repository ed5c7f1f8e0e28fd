"""Routing and switches of two published networks."""
