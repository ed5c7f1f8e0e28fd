"""Reports of learning."""
