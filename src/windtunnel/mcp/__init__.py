"""A door for programs that speak the Model Context Protocol: typed tools over `api`, small answers."""
