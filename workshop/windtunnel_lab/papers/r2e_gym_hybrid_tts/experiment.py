"""How far the errors of two verifiers must differ for both to be worth what they are."""

from __future__ import annotations

import math

from windtunnel.population.beta import from_mean
from windtunnel.population.reward_model import separation_from_accuracy
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "r2e-gym-hybrid-tts")
fixed = EXPERIMENT.fixed


def separation(values: Values, accuracy: float) -> float:
    """That of a verifier whose best of all trajectories is right so often; NaN where there is none."""
    points = from_mean(values["pass_1"], values["concentration"]).points(400)
    found = separation_from_accuracy(points, fixed("trajectories"), accuracy)
    return math.nan if found is None else found


def correlation(values: Values) -> float:
    """Of both verifiers' errors."""
    ratio = separation(values, fixed("both")) / separation(values, fixed("one"))
    return 2.0 / ratio**2 - 1.0


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"correlation": correlation, "separation": lambda v: separation(v, fixed("one"))}
