"""Speculation parallelism: the draft never waits, several instances of the model verify at the same time.

The draft goes on while blocks of k tokens are verified, each block by an instance that is free; the first token
that the model would not have said stops all that was drafted behind it. A cycle runs from one such token to the
next. It takes as long as drafting up to the block before that token, and one verification: block j is verified from
j·k drafted tokens on, and the first one needs none. Next to it one instance goes on without drafts, so that a cycle
of N tokens never takes longer than N passes of the model.

Source: Timor et al. 2024 (arXiv 2405.14105), algorithm 1 and its lookahead; with fewer than ceil(verification / (k ·
draft)) instances blocks wait for one, and drafting with them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.speculation.orders.base import ORDERS, Pair

LONGEST = 4096
"""Tokens without a correction beyond which a cycle is cut."""


def _chances(pair: Pair) -> Floats:
    """(LONGEST + 1,) chance that so many drafted tokens are kept before the first that is not."""
    kept = np.cumprod(pair.rates(LONGEST))
    at_least = np.concatenate([[1.0], kept])
    return np.append(at_least[:-1] - at_least[1:], at_least[-1])


class Dsi:
    """Verification hidden behind drafting."""

    title: ClassVar[str] = "distributed speculative inference"
    source: ClassVar[str] = "arXiv 2405.14105"

    def tokens(self, pair: Pair) -> float:
        """All that were kept, and the one that corrects them."""
        return float(_chances(pair) @ np.arange(1.0, LONGEST + 2.0))

    def seconds(self, pair: Pair) -> Floats:
        """Drafting up to the last block that counts, and one verification."""
        n = np.arange(LONGEST + 1.0)
        block = np.maximum(pair.tokens * pair.pass_s, pair.verify_s / pair.verifiers)
        chances = _chances(pair)
        spent = pair.verify_s[:, None] + block[:, None] * np.ceil(n / pair.tokens)
        return np.asarray(np.minimum(spent, pair.verify_s[:, None] * (n + 1.0)) @ chances)


ORDERS.add("dsi", Dsi())
