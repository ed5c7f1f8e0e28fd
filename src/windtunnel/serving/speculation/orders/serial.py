"""Draft, verify, draft again: each waits for the other."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.arrays import Floats
from windtunnel.serving.speculation.base import expected_tokens
from windtunnel.serving.speculation.orders.base import ORDERS, Pair


class Serial:
    """Speculative decoding as first published."""

    title: ClassVar[str] = "one after the other"
    source: ClassVar[str] = "Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1"

    def tokens(self, pair: Pair) -> float:
        """Those kept, and the model's own one."""
        return expected_tokens(tuple(pair.rates(pair.tokens)))

    def seconds(self, pair: Pair) -> Floats:
        """The passes that draft, and one of the model."""
        return pair.rollout_s + pair.verify_s


ORDERS.add("serial", Serial())
