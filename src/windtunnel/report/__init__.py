"""What people read: terminal summaries, the HTML report, comparisons and explanations."""
