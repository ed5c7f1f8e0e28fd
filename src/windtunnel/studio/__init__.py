"""A local web app over `api`: edit a scenario and see what it does. For one user, on this machine."""
