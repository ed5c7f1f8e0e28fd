"""The one place that opens files which a user names: what may be read, written and run, and how."""
