"""Large Language Monkeys: coverage of repeated sampling (Brown et al. 2024)."""
