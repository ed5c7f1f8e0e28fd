"""Sliwko and Getov, Workload Schedulers: Genesis, Algorithms and Differences."""
