"""Methods of drafting, one file each."""
