"""Beam search over steps: after each step the verifier scores it, and the best few go on, each as equally many.

Source: Snell et al. 2024 (arXiv 2408.03314), section 5.1; github SqueezeAILab/ETS, rebase.py, select_beam_search.
"""

from __future__ import annotations

import math

from windtunnel.arrays import Floats
from windtunnel.errors import ProblemList
from windtunnel.programs.beam_chances import beam_success
from windtunnel.programs.choose_attempt import SEPARATIONS
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.tree import search
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.serving.traffic.trajectories.base import METHODS
from windtunnel.specs.trajectories import Trajectories
from windtunnel.techniques.base import Knob

MOST_WIDTH = 512


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Steps and their scores; a depth begins when all scores of the one before are there."""
    width = knobs["n"]
    settings = Trajectories(method="beam", width=width, keep=kept(knobs), steps=knobs["steps"])
    questions = work.questions(graph)
    found = search(graph, work, questions, work.problems, METHODS.get("beam"), settings)
    return Built(ends=found.ends, right=found.right)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats | Banded:
    """By recursion over the trajectories that are still right (`programs.beam_chances`)."""
    if knobs["n"] == 1:
        return p

    def at(separation: float) -> Floats:
        return beam_success(p, knobs["n"], kept(knobs), knobs["steps"], separation)

    if quality.separation_stated:
        return at(quality.separation)
    low, high = (at(d) for d in SEPARATIONS)
    why = "the verifier's separation is assumed: state programs.verifier.separation"
    return Banded(mean=at(quality.separation), low=low, high=high, why=why)


def kept(knobs: Knobs) -> int:
    """Trajectories that go on: as stated, else the divisor of the width that is nearest to its square root."""
    if knobs["keep"] is not None:
        return int(knobs["keep"])
    width = knobs["n"]
    return min((k for k in range(1, width + 1) if width % k == 0), key=lambda k: abs(k - math.sqrt(width)))


def _check(knobs: Knobs, problems: ProblemList, field: str) -> None:
    keep, n = knobs.get("keep"), knobs.get("n")
    if isinstance(keep, int) and isinstance(n, int) and (keep > n or n % keep):
        problems.add(f"{field}.keep", keep, f"must divide n {n}: each that is kept goes on as equally many")


STRATEGIES.add(
    "beam",
    Strategy(
        id="beam",
        summary="beam search over steps, which a verifier scores",
        build=build,
        success=success,
        knobs={
            "n": Knob(16, 1, MOST_WIDTH, doc="trajectories at once"),
            "keep": Knob(None, 1, MOST_WIDTH, doc="trajectories that go on; absent: about the square root of n"),
            "steps": Knob(8, 1, 100, doc="steps of a trajectory"),
        },
        scores=lambda knobs: knobs["n"] > 1,
        check=_check,
        source="Snell et al. 2024 (arXiv 2408.03314), section 5.1",
    ),
)
