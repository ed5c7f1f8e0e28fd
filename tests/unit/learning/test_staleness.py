"""`max_staleness`: an upload that is exactly as late as allowed counts, one server step later it is thrown away."""

from __future__ import annotations

import numpy as np
import pytest
from arrival_runs import algorithm_of, built_task, job_of

from windtunnel.learning.algorithms.arrival import Upload

ENTRIES = ("fedasync", "fedbuff", "papaya")


def upload(staleness: int) -> Upload:
    """A round of worker 3 that went down by one in every parameter."""
    return Upload(
        worker=3,
        round_number=0,
        version=0,
        staleness=staleness,
        steps=8,
        fetched_s=0.0,
        now_s=1.0,
        compute_s=1.0,
        fetched=np.zeros(4),
        difference=np.ones(4),
        first_gradient=None,
        loss=1.0,
        lr=0.1,
        samples=1.0,
        nbytes=16.0,
    )


@pytest.mark.parametrize("id", ENTRIES)
@pytest.mark.parametrize(
    ("most", "staleness", "counts"), [(None, 1000, True), (4, 4, True), (4, 5, False), (0, 1, False)]
)
def test_what_is_thrown_away(id: str, most: int | None, staleness: int, counts: bool) -> None:
    knobs = {"max_staleness": most} if id == "fedasync" else {"max_staleness": most, "buffer": 1}
    algorithm = algorithm_of(id, job_of(built_task("quadratic", 4, params=4), steps=8), **knobs)
    server = algorithm.start(np.zeros(4))
    answer = algorithm.arrived(server, upload(staleness))
    assert answer.merged is counts and answer.release == (3,)
    assert server.version == int(counts) and bool(np.any(server.anchor != 0)) is counts
