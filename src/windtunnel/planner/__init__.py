"""The best plan of a space: enumerate, bound, simulate what the bound leaves, prove that nothing better was missed."""
