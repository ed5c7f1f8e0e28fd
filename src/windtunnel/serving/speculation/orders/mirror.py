"""Drafting on other devices next to the last layers of the model.

At an early layer the model names candidates for what it will say; the draft, on devices of its own, goes on from
each of them while the model computes the rest. Where what the model says was among them the next draft is there
already: drafting takes time only beyond those last layers. Else it starts anew, and the model waits.

Source: Bhendawade et al. 2025 (arXiv 2510.13161), section 3.1: branch-complete rollouts from early-exit signals.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.speculation.base import expected_tokens
from windtunnel.serving.speculation.orders.base import ORDERS, Pair


class Mirror:
    """As many tokens as one after the other."""

    title: ClassVar[str] = "Mirror speculative decoding"
    source: ClassVar[str] = "arXiv 2510.13161"

    def tokens(self, pair: Pair) -> float:
        """Those kept, and the model's own one: what is accepted does not change."""
        return expected_tokens(tuple(pair.rates(pair.tokens)))

    def seconds(self, pair: Pair) -> Floats:
        """The model, what of the draft exceeds its last layers, and drafts made anew."""
        suffix = (1.0 - pair.early_exit) * pair.verify_s
        beside = np.maximum(pair.rollout_s - suffix, 0.0)
        return pair.verify_s + pair.reuse * beside + (1.0 - pair.reuse) * pair.rollout_s + pair.sync_s


ORDERS.add("mirror", Mirror())
