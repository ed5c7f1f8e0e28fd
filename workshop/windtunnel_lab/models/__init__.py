"""Models that papers of the workshop use and no command reaches."""
