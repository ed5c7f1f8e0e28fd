"""Results and plans written for other tools, one file each."""
