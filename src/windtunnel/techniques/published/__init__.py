"""One technique a file; the file name is the id with underscores. Each defines `TECHNIQUE`."""
