"""Training predictions, comparisons and explanations as terminal text, figures and HTML."""
