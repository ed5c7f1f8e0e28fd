"""Flag Aggregator: gradients aggregated in the subspace that most of the workers share."""
