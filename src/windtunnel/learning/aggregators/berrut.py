"""Berrut's decoding: K gradients from the answers of coded shares, wrong answers found first, then their mean.

Rows are answers of workers to shares that were encoded by `runs.step_waits.berrut.encode`, in the order of the workers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.aggregators import AGGREGATORS, Aggregate, AggregatorKind
from windtunnel.runs.step_waits.berrut import decode, wrong_answers
from windtunnel.techniques.knobs import Knob


def mean_of_blocks(answers: Floats, blocks: int, wrong: int, returned: Ints | None = None, shares: int = 0) -> Floats:
    """Mean of the results of all blocks, shape (entries,).

    Args:
        answers: Of the workers that returned, shape (returned, entries).
        blocks: K.
        wrong: Answers that are left out as corrupted.
        returned: Which workers they are, ascending; None: all.
        shares: Sent out; 0: as many as answers.
    """
    who = np.arange(len(answers)) if returned is None else returned
    shares = shares or len(answers)
    if wrong:
        bad = wrong_answers(answers, who.astype(np.float64), shares, blocks, wrong).astype(np.int64)
        answers, who = np.delete(answers, bad, axis=0), np.delete(who, bad)
    return np.asarray(decode(answers, who.astype(np.float64), shares, blocks).mean(axis=0))


def build(workers: int, knobs: dict[str, Any]) -> Aggregate:
    """Refuses more wrong answers than can be found."""
    blocks, wrong = knobs["blocks"], knobs["wrong"]
    if blocks + 2 * wrong > workers:
        rule = f"{workers} answers with {blocks} blocks tell at most {max(0, workers - blocks) // 2} wrong ones"
        raise BadInput(Problem("wrong", rule, wrong))
    return partial(mean_of_blocks, blocks=blocks, wrong=wrong)


AGGREGATORS.add(
    "berrut",
    AggregatorKind(
        id="berrut",
        summary="mean of blocks decoded from coded answers by Berrut's interpolation",
        build=build,
        knobs={
            "blocks": Knob(2, 1, 100_000, "K: blocks that were encoded"),
            "wrong": Knob(0, 0, 100_000, "answers that may be corrupted"),
        },
        source="Jahani-Nezhad and Maddah-Ali 2020 (arXiv 2009.08327)",
    ),
)
