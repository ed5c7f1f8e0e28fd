"""Lower bounds on the step time of every plan: block costs, data-parallel traffic, pipeline shape and stage partition."""
