"""Model types of Hugging Face configurations: tables of what their code decides, and readers of families."""
