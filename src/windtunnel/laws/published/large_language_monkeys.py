"""Coverage of repeated samples as an exponentiated power, c = exp(a·k^(−b)), and the exponent that a Beta implies.

Source: Brown et al. 2024, Large Language Monkeys (arXiv 2407.21787), equation 3; Schaeffer et al. 2025 (arXiv
2502.17578): success probabilities whose density falls like p^(s−1) at 0 give −ln c ~ k^(−s). For a Beta(s, r)
population b tends to s: two points of a coverage curve and its exponent check the tail of a fitted Beta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from windtunnel.errors import BadInput, Problem
from windtunnel.laws import LAWS, Law, Quantity, Question, Values


def power_of(k1: float, c1: float, k2: float, c2: float) -> tuple[float, float]:
    """Factor a (below 0) and exponent b through two points of a coverage curve."""
    b = math.log(math.log(c1) / math.log(c2)) / math.log(k2 / k1)
    return math.log(c1) * k1**b, b


def coverage(samples: float, a: float, b: float) -> float:
    """Share of problems that at least one of so many samples solves."""
    return math.exp(a * samples**-b)


def of_beta(samples: float, s: float, r: float) -> float:
    """Coverage of a Beta(s, r) population: 1 − B(s, r + k)/B(s, r)."""
    log = math.lgamma(r + samples) + math.lgamma(s + r) - math.lgamma(s + r + samples) - math.lgamma(r)
    return -math.expm1(log)


def _curve(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    if not (v["c1"] < v["c2"] and v["k1"] < v["k2"]):
        raise BadInput(Problem("c2", "must be above c1, and k2 above k1", v["c2"]))
    a, b = power_of(v["k1"], v["c1"], v["k2"], v["c2"])
    return {"coverage": coverage(v["samples"], a, b), "exponent": b, "factor": a}


def _tail(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    k = v["samples"]
    here, later = (of_beta(x, v["alpha"], v["beta"]) for x in (k, 2.0 * k))
    return {"coverage": here, "exponent": math.log2(math.log(here) / math.log(later)), "limit": v["alpha"]}


LEAST, MOST = 1e-12, 1.0 - 1e-12
"""A coverage of 0 or 1 has no logarithm to fit."""

LAWS.add(
    "large-language-monkeys",
    Law(
        id="large-language-monkeys",
        title="Large Language Monkeys: coverage of repeated samples",
        source="Brown et al. 2024, Large Language Monkeys, equation 3; Schaeffer et al. 2025 for the exponent",
        link="https://arxiv.org/abs/2407.21787",
        confirmed="form and its reason on five public pages; the two points are the user's",
        valid="1 to 10,000 samples of problems whose success probabilities have a heavy tail at 0",
        grade="theory",
        quantities={
            "samples": Quantity(doc="samples a problem", low=1.0, high=1e4, least=1.0),
            "k1": Quantity(doc="samples of the first point", least=1.0),
            "c1": Quantity(doc="coverage of the first point", least=LEAST, most=MOST),
            "k2": Quantity(doc="samples of the second point", least=1.0),
            "c2": Quantity(doc="coverage of the second point", least=LEAST, most=MOST),
            "alpha": Quantity(doc="first parameter of a Beta population", least=1e-6),
            "beta": Quantity(doc="second parameter of a Beta population", least=1e-6),
        },
        questions=(
            Question(
                id="coverage",
                summary="Coverage at so many samples on the curve through two points.",
                needs=("samples", "k1", "c1", "k2", "c2"),
                units={"coverage": "share", "exponent": "", "factor": ""},
                answer=_curve,
            ),
            Question(
                id="beta-tail",
                summary="Coverage of a Beta population and its local exponent, which tends to alpha.",
                needs=("samples", "alpha", "beta"),
                units={"coverage": "share", "exponent": "", "limit": ""},
                answer=_tail,
            ),
        ),
    ),
)
