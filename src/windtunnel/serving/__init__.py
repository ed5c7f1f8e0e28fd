"""Serving, request by request: traffic in, waiting, first tokens and answers out."""
