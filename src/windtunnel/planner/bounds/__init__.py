"""Lower bounds on the step time of plans: block costs, data-parallel traffic, pipeline shape, stage partition."""
