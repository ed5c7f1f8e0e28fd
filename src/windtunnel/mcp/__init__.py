"""An entry point for programs that speak the Model Context Protocol: typed tools over `api`, small answers."""
