"""Clusters of unlike device groups: batch shares of the groups, and one prepared step across them."""
