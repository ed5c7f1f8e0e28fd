"""Searches, learned predictors and meters of clusters, each of one paper."""
