"""How the words of a measured row are read: one module a subject, the meanings themselves as data in `patterns/`."""
