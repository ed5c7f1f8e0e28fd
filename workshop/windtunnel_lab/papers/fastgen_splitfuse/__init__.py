"""Dynamic SplitFuse against prompts that stop decoding (Holmes et al. 2024)."""
