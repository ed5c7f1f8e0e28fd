"""Published laws, one file each."""
