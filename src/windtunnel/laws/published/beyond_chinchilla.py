"""The cheapest model of a quality once the tokens that it will serve are counted.

Source: Sardana, Portes, Doubov and Frankle 2024 (arXiv 2401.00448), section 2: minimise 6·N·D + 2·N·D_inference at a
fixed loss of Chinchilla's law. Its example: a model of the quality of a Chinchilla-optimal 13B that serves 2 trillion
tokens is cheapest at 7B, with 1.7e22 FLOP (17 %) less.
"""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.laws import LAWS, Law, Quantity, Question, Values
from windtunnel.laws.power_sum import FLOP_SERVED, FLOP_TRAINED, lifetime, loss, optimum, pivoted
from windtunnel.laws.published.chinchilla import TABLE

C = Mapping[str, float]


def trained(wanted: float, c: C) -> tuple[float, float]:
    """Parameters and tokens of the least training FLOP for a loss."""
    low, high = 1e10, 1e32
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if loss(*optimum(middle, c), c) > wanted else (low, middle)
    return optimum(high, c)


def _answer(wanted: float, served: float, c: C) -> dict[str, float]:
    parameters, tokens, flop = lifetime(wanted, served, c)
    n, d = trained(wanted, c)
    alone = n * (FLOP_TRAINED * d + FLOP_SERVED * served)
    return {"parameters": parameters, "tokens": tokens, "flop": flop, "saved": 1.0 - flop / alone, "loss": wanted}


def of_size(parameters: float, c: C) -> float:
    """Loss of a model of so many parameters that was trained on the tokens that suit it best."""
    low, high = 1e6, 1e32
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if optimum(middle, c)[0] < parameters else (low, middle)
    return loss(*optimum(high, c), c)


def _by_size(v: Values, c: C) -> dict[str, float]:
    return _answer(of_size(v["parameters"], c), v["served"], c)


UNITS = {"parameters": "parameters", "tokens": "tokens", "flop": "FLOP", "saved": "share", "loss": "nats/token"}

LAWS.add(
    "beyond-chinchilla",
    Law(
        id="beyond-chinchilla",
        title="Beyond Chinchilla-optimal: the cheapest model when its inference counts",
        source="Sardana et al. 2024, Beyond Chinchilla-Optimal, section 2, over the coefficients of chinchilla",
        link="https://arxiv.org/abs/2401.00448",
        confirmed="6ND + 2N·D_inference and the example of 13B, 7B and 17 % on three public pages",
        valid="qualities of Chinchilla-optimal models of 70M to 70B parameters, at most 1e15 tokens served",
        quantities={
            "parameters": Quantity(doc="Chinchilla-optimal model whose loss is wanted", low=70e6, high=70e9, least=1e3),
            "loss": Quantity(doc="loss that is wanted", unit="nats/token", low=1.9, high=3.6, least=1.7),
            "served": Quantity(doc="tokens that it will read and write in its life", high=1e15, low=0.0),
        },
        questions=(
            Question(
                id="lifetime",
                summary="The cheapest model with the loss of a Chinchilla-optimal one, its inference counted.",
                needs=("parameters", "served"),
                units=UNITS,
                answer=_by_size,
            ),
            Question(
                id="lifetime-of-loss",
                summary="The cheapest model with a loss, its inference counted.",
                needs=("loss", "served"),
                units=UNITS,
                answer=lambda v, c: _answer(v["loss"], v["served"], c),
            ),
        ),
        tables={"": TABLE},
        moved=pivoted(1e9, 50e9),
        notes=("FLOP alone: a device's lower use while it writes tokens would shift the optimum further down",),
    ),
)
