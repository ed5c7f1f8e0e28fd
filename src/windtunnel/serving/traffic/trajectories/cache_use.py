"""What a search holds in the cache from step to step."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.requests import Requests


def mean_held(requests: Requests) -> tuple[Floats, Floats]:
    """Tokens at the end of a step, mean over the steps of each of T searches; answers count in the step that ends them.

    Returns:
        (T,) of distinct stretches, and (T,) with a copy for each trajectory of all that it holds.
    """
    content = requests.content
    assert content is not None
    task = requests.group.astype(np.int64)
    lengths = np.diff(content.start)
    layer = np.cumsum(np.diff(task, prepend=-1).astype(bool) | np.diff(lengths, prepend=-1).astype(bool)) - 1
    owner = np.repeat(layer, lengths)
    pairs = np.unique(np.stack([owner, content.nodes.astype(np.int64)]), axis=1)
    shared = np.bincount(pairs[0], weights=content.tokens[pairs[1]])
    alone = np.bincount(owner, weights=content.tokens[content.nodes])
    first = np.unique(layer, return_index=True)[1]
    steps = np.bincount(task[first])
    return np.bincount(task[first], weights=shared) / steps, np.bincount(task[first], weights=alone) / steps
