"""Loss of models that run P streams through the same weights: L = E + (A/(N·(1 + k·ln P)))^α.

Source: Chen et al. 2025 (arXiv 2505.10475), equation 5 and table 1. Coefficients and errors are our own fit (Huber loss
on logarithms, as theirs) to the 24 losses by data set in the authors' repository (QwenLM/ParScale, parametric_fit.py,
commit cd6acb48); they agree with the printed ones to all digits that we know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from windtunnel.laws import LAWS, Coefficient, Law, Quantity, Question, Values
from windtunnel.systems import card

C = Mapping[str, float]
PIVOT = 1.5e9


def gain(streams: float, c: C) -> float:
    """Parameters that so many streams are worth, over those that there are."""
    return 1.0 + c["k"] * math.log(streams)


def _loss(v: Values, c: C) -> dict[str, float]:
    worth = gain(v["streams"], c)
    same = v["parameters"] * worth
    return {"loss": c["E"] + c["T"] * (PIVOT / same) ** c["alpha"], "equivalent_parameters": same, "gain": worth}


def _table(
    least: float, scale: float, alpha: float, alpha_error: float, k: float, k_error: float
) -> dict[str, Coefficient]:
    """E and α are fitted together (correlation 0.995): the error of α is the one at a fixed E."""
    return {
        "E": Coefficient(value=least),
        "T": Coefficient(value=(scale / PIVOT) ** alpha),
        "alpha": Coefficient(value=alpha, error=alpha_error),
        "k": Coefficient(value=k, error=k_error),
    }


LAWS.add(
    "parscale",
    Law(
        id="parscale",
        title="ParScale: loss with P parallel streams through the same weights",
        source=f"Chen et al. 2025, {card('parscale').title}, equation 5, table 1",
        link="https://arxiv.org/abs/2505.10475",
        confirmed="fitted here to the authors' 48 losses; form on two public pages",
        valid="0.5B to 4.4B parameters without embeddings, 1 to 8 streams, 42B tokens",
        quantities={
            "data": Quantity(doc="training data", choices=("stack", "pile")),
            "parameters": Quantity(doc="size without embeddings", unit="parameters", low=5.3e8, high=4.42e9, least=1),
            "streams": Quantity(doc="parallel streams P", low=1, high=8, least=1),
        },
        questions=(
            Question(
                id="loss",
                summary="Loss of a model with so many parameters and streams.",
                needs=("data", "parameters", "streams"),
                units={"loss": "nats/token", "equivalent_parameters": "parameters", "gain": ""},
                answer=_loss,
            ),
        ),
        tables={
            "stack": _table(0.691207, 11307073.0, 0.189358, 0.0048, 0.393457, 0.0406),
            "pile": _table(1.288588, 197516573.0, 0.196281, 0.0026, 0.334442, 0.0226),
        },
        by=("data",),
        residuals={"loss": 0.0027},
    ),
)
