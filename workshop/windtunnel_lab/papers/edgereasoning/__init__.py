"""Kubwimana and Huang 2025, EdgeReasoning, https://arxiv.org/abs/2511.01866."""
