"""`plan` with `search.target: serving`: which deployment serves a load and its objective best."""
