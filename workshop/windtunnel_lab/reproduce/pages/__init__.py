"""Generated documentation pages: claims of papers, techniques by family, gain maps."""
