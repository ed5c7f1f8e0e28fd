"""What a verifier is worth over cloning as horizons grow: a gap that rises with the square root of the horizon.

Source: Setlur et al. 2025 (arXiv 2502.12118): with
rewards of a base policy that spread by σ over the solutions of a problem (σ² grows with the horizon H), cloning stays
at the mean of what it clones, a verifier picks within that spread and pays H/n for learning from n problems. Here as
gap = spread·√(κ·H) − error·H/n with its factors given: the order in H and n is the paper's, the factors are the user's.
"""

from __future__ import annotations

import math

from windtunnel.laws import LAWS, Law, Quantity, Question
from windtunnel.systems import card


def gap(horizon: float, problems: float, spread: float, reach: float, error: float) -> float:
    """Reward of a verifier's choice over that of cloning.

    Args:
        horizon: tokens (or steps) H of test time.
        problems: training problems n.
        spread: standard deviation of the reward of one step over solutions.
        reach: κ, how far the verifier's choice may be from the base policy, in χ².
        error: cost of learning the verifier, times H/n.
    """
    return spread * math.sqrt(reach * horizon) - error * horizon / problems


LAWS.add(
    "vb-vs-vf",
    Law(
        id="vb-vs-vf",
        title="Verifier-based over verifier-free: the gap grows with the root of the horizon",
        source=f"Setlur et al. 2025, {card('vb-vs-vf').title}",
        link="https://arxiv.org/abs/2502.12118",
        confirmed="order of the gap as in the research catalogue; the factors are the user's",
        valid="rewards that spread over the solutions of a problem and are anti-concentrated; order of growth alone",
        grade="theory",
        quantities={
            "horizon": Quantity(doc="steps of test time H", low=1.0, least=1e-300),
            "problems": Quantity(doc="training problems n", low=1.0, least=1e-300),
            "spread": Quantity(doc="standard deviation of one step's reward over solutions", default=1.0),
            "reach": Quantity(doc="χ² distance κ of the chosen from the base policy", default=1.0),
            "error": Quantity(doc="cost of learning the verifier, times H/n", default=1.0),
        },
        questions=(
            Question(
                id="gap",
                summary="Reward of a verifier's choice over that of cloning.",
                needs=("horizon", "problems"),
                may=("spread", "reach", "error"),
                units={"gap": "reward"},
                answer=lambda v, _: {
                    "gap": gap(v["horizon"], v["problems"], v["spread"], v["reach"], v["error"]),
                },
            ),
        ),
    ),
)
