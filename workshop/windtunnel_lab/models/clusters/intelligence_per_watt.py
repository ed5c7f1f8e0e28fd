"""Accuracy a watt and a joule, and a router between a local model and a cloud.

A query goes to the local model where the router expects it to answer right, else to the cloud. A router of accuracy r
sends that share of the queries that the local model would answer to it, and the same share of the others to the cloud;
what it wrongly keeps is answered wrongly unless it falls back, and then both are paid for.

Source: Saad-Falcon et al., Intelligence per Watt, 2025, arXiv 2511.07885: accuracy over mean watts (and over joules),
oracle routing and a router of 80 % with cloud fallback.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Mask


@dataclass(frozen=True, slots=True)
class Answered:
    """One model on one accelerator."""

    accuracy: float
    watts: float
    """Mean while it answers, all devices together."""
    joules: float
    """A query."""

    @property
    def per_watt(self) -> float:
        """Accuracy over watts."""
        return self.accuracy / self.watts

    @property
    def per_joule(self) -> float:
        """Accuracy over joules of a query."""
        return self.accuracy / self.joules


@dataclass(frozen=True, slots=True)
class Routed:
    """What a router came to."""

    local_share: float
    saved: float
    """Energy saved against the cloud alone."""
    accuracy: float


def routed(right: Mask, local: Answered, cloud: Answered, accuracy: float, seed: int, *, fallback: bool) -> Routed:
    """Send queries one by one.

    Args:
        right: whether the local model answers each query as well as the cloud, shape (queries,).
        local: joules of a query there; its accuracy is that of `right`.
        cloud: joules and accuracy there.
        accuracy: of the router's guess; 1 is an oracle.
        seed: of its mistakes.
        fallback: queries that the router is not sure to keep go to the cloud, so that mistakes are only missed savings;
            else a mistake may also keep a query that the local model gets wrong.
    """
    sure = np.random.default_rng(seed).random(len(right)) < accuracy
    kept = right & sure if fallback else np.where(sure, right, ~right)
    share = float(kept.mean())
    joules = share * local.joules + (1.0 - share) * cloud.joules
    quality = float(np.where(kept, right, True).mean()) * cloud.accuracy
    return Routed(share, 1.0 - joules / cloud.joules, quality)
