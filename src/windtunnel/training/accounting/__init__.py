"""Where the time of a simulated step goes."""
