"""ElasWave: pipelines that go on without a node."""
