"""DADAO (Nabli and Oyallon 2022), https://arxiv.org/abs/2208.00779."""
