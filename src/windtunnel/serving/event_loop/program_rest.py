"""What of a program is still to do when one of its calls comes: for queues and routers that look beyond the call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.requests import Requests


@dataclass(frozen=True, slots=True)
class ProgramRest:
    """Of R calls. Lengths are those that the calls will have: what a scheduler must predict is known exactly."""

    prompt_tokens: Floats
    """(R,) most prompt tokens on a path from each call to the end of its program, its own included."""
    output_tokens: Floats
    """(R,) most generated tokens on such a path, its own included."""
    deadline_s: Floats
    """(R,) objective of the program, seconds from its first call; infinite: none."""


def rest_of_programs(requests: Requests) -> ProgramRest:
    """Longest paths downwards; a request that nothing waits for has its own tokens alone."""
    own = (requests.input_tokens.astype(np.float64), requests.output_tokens.astype(np.float64))
    prompt, output = (_longest(requests, tokens) for tokens in own)
    return ProgramRest(prompt, output, requests.deadline_s)


def _longest(requests: Requests, tokens: Floats) -> Floats:
    after = requests.after
    if after is None:
        return tokens
    nodes = len(after.start) - 1
    parent = np.repeat(np.arange(nodes), np.diff(after.start))
    weight = np.concatenate([tokens, np.zeros(nodes - len(tokens))])
    total = weight
    while True:
        below = np.zeros(nodes)
        np.maximum.at(below, parent, total[after.children])
        new = weight + below
        if (new == total).all():
            return total[: len(tokens)]
        total = new
