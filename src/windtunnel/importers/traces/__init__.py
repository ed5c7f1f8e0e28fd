"""Request traces of other tools and of production: one file a format."""
