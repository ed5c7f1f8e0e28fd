"""Coverage between its ends, and the prefix that attempts share."""

from __future__ import annotations

import numpy as np

from windtunnel.population.fit_tables import fit_pass_at_k
from windtunnel.population.pass_at_k import pass_at_k
from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "large-language-monkeys")
fixed = EXPERIMENT.fixed


def coverage(k: int) -> float:
    """Per cent of issues that one of k attempts solves."""
    ends = {int(at): float(share) for at, share in fixed("ends").items()}
    law = fit_pass_at_k(ends, one_temperature=True).law
    return 100.0 * float(pass_at_k(law, np.array([float(k)]))[0])


def shared() -> float:
    """Cached share of prompt tokens over that of all attempts but the first."""
    n = fixed("attempts")
    found = reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": {"best_of_n": {"n": n, "selector": "checker"}},
                "problems": 8,
                "concurrency": 1,
                "input_tokens": fixed("issue_tokens"),
                "output_tokens": fixed("answer_tokens"),
            },
            "population": {"pass_at_k": fixed("ends")},
        }
    ).last
    return float(found.cached_tokens / found.prompt_tokens / ((n - 1) / n))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"five": lambda v: coverage(5), "end": lambda v: coverage(250), "shared": lambda v: shared()}
