"""Loss as a sum of powers, L = E + A/N^α + B/D^β: loss, compute-optimal size, tokens to a loss, inference counted in.

Source: Hoffmann et al. 2022 (arXiv 2203.15556), equation 2; the optimum at a budget of C = 6ND is closed
(equation 4). Loss in nats a token; 6 FLOP a parameter and token of training, 2 of inference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from windtunnel.laws.records import Quantity, Question, Values

Coefficients = Mapping[str, float]

FLOP_TRAINED = 6.0
FLOP_SERVED = 2.0
"""FLOP a parameter and token."""


def loss(parameters: float, tokens: float, c: Coefficients) -> float:
    """Loss in nats a token."""
    return float(c["E"] + c["A"] * parameters ** -c["alpha"] + c["B"] * tokens ** -c["beta"])


def optimum(flop: float, c: Coefficients) -> tuple[float, float]:
    """Parameters and tokens of the least loss at so many FLOP of training."""
    ratio = (c["alpha"] * c["A"] / (c["beta"] * c["B"])) ** (1.0 / (c["alpha"] + c["beta"]))
    products = flop / FLOP_TRAINED
    parameters = ratio * products ** (c["beta"] / (c["alpha"] + c["beta"]))
    return parameters, products / parameters


def tokens_to(parameters: float, wanted: float, c: Coefficients) -> float:
    """Tokens after which a model of so many parameters has a loss; infinity where it never has."""
    left = wanted - c["E"] - c["A"] * parameters ** -c["alpha"]
    return float((c["B"] / left) ** (1.0 / c["beta"])) if left > 0 else math.inf


def lifetime(wanted: float, served: float, c: Coefficients) -> tuple[float, float, float]:
    """Parameters, tokens of training and FLOP in all of the cheapest model with a loss that serves so many tokens.

    Source: Sardana et al. 2024 (arXiv 2401.00448): minimise 6ND + 2N·(tokens served) at L(N, D) = loss.
    """
    least = (c["A"] / (wanted - c["E"])) ** (1.0 / c["alpha"])

    def flop(log_above: float) -> float:
        n = least * (1.0 + math.exp(log_above))
        return float(n * (FLOP_TRAINED * tokens_to(n, wanted, c) + FLOP_SERVED * served))

    at = _least(flop, -6.0, 12.0)
    n = least * (1.0 + math.exp(at))
    return n, tokens_to(n, wanted, c), flop(at)


def _least(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is least, by golden section."""
    share = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - share * (high - low), low + share * (high - low)
    for _ in range(100):
        if of(left) < of(right):
            high, right = right, left
            left = high - share * (high - low)
        else:
            low, left = left, right
            right = low + share * (high - low)
    return (low + high) / 2.0


def pivoted(parameters: float, tokens: float) -> Callable[[str, float, Coefficients], Coefficients]:
    """Moves an exponent with its factor, so that the term stays at the middle of the fitted range.

    A and α (B and β) of such fits are almost perfectly correlated: moving one without the other would leave every run
    of the fit. So a factor follows its exponent, and the printed errors of factors are not added again.
    """
    factors = {"alpha": ("A", parameters), "beta": ("B", tokens)}

    def moved(name: str, delta: float, c: Coefficients) -> Coefficients:
        if name in ("A", "B"):
            return c
        if name not in factors:
            return dict(c) | {name: c[name] + delta}
        factor, pivot = factors[name]
        return dict(c) | {name: c[name] + delta, factor: c[factor] * pivot**delta}

    return moved


def quantities(
    parameters: tuple[float, float], tokens: tuple[float, float], flop: tuple[float, float]
) -> dict[str, Quantity]:
    """Quantities of such a law with their stated ranges."""
    return {
        "parameters": Quantity(doc="model size", unit="parameters", low=parameters[0], high=parameters[1], least=1.0),
        "tokens": Quantity(doc="training tokens", unit="tokens", low=tokens[0], high=tokens[1], least=1.0),
        "flop": Quantity(
            doc="training budget, 6 a parameter and token", unit="FLOP", low=flop[0], high=flop[1], least=1.0
        ),
        "loss": Quantity(doc="loss to reach", unit="nats/token"),
    }


def _tokens(v: Values, c: Coefficients) -> dict[str, float]:
    tokens = tokens_to(v["parameters"], v["loss"], c)
    return {"tokens": tokens, "flop": FLOP_TRAINED * v["parameters"] * tokens}


def _optimum(v: Values, c: Coefficients) -> dict[str, float]:
    parameters, tokens = optimum(v["flop"], c)
    ratio = tokens / parameters
    return {
        "parameters": parameters,
        "tokens": tokens,
        "loss": loss(parameters, tokens, c),
        "tokens_per_parameter": ratio,
    }


LOSS = Question(
    id="loss",
    summary="Loss of a model of so many parameters after so many tokens.",
    needs=("parameters", "tokens"),
    units={"loss": "nats/token"},
    answer=lambda v, c: {"loss": loss(v["parameters"], v["tokens"], c)},
)
OPTIMUM = Question(
    id="optimum",
    summary="Parameters and tokens of the least loss at a budget of training FLOP.",
    needs=("flop",),
    units={"parameters": "parameters", "tokens": "tokens", "loss": "nats/token", "tokens_per_parameter": ""},
    answer=_optimum,
)
TOKENS = Question(
    id="tokens",
    summary="Tokens after which a model of so many parameters has a loss.",
    needs=("parameters", "loss"),
    units={"tokens": "tokens", "flop": "FLOP"},
    answer=_tokens,
    unreachable="a model of so many parameters never has this loss",
)
