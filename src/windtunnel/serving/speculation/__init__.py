"""Speculative decoding: what drafts tokens (one file a method), what that costs, how many are kept."""

from windtunnel.serving.speculation.base import METHODS, Drafting, Network
from windtunnel.serving.speculation.costs import with_drafts
from windtunnel.serving.speculation.resolve import drafting_of

__all__ = ["METHODS", "Drafting", "Network", "drafting_of", "with_drafts"]
