"""Cost of each virtual pipeline stage: seconds, work, memory and parameters, priced once per block kind."""
