"""When a tree of agents beats one agent with the same budget: the organization exponent s above the scaling exponent β.

Source: Liu, Kong and Pei 2026 (arXiv 2601.17311). Leaves with a
budget x answer rightly with probability 1/2 + c·x^β/2, c small. A majority of b children, who share one vote with
probability ρ and whose messages keep γ of their signal, multiplies a small bias by α = γ·((1 − ρ)·m_b + ρ), with m_b
the slope of a majority of b at 1/2. A tree of depth L has b^L leaves and multiplies it by α^L, so by
(budget/x)^s with s = ln α / ln b; one agent would gain (budget/x)^β. Synergy exactly where s > β. The slope of α is
derived here for this mixture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from windtunnel.errors import BadInput, Problem
from windtunnel.laws import LAWS, Law, Quantity, Question, Values
from windtunnel.systems import card


def majority(bias: float, children: int) -> float:
    """Bias of the majority of an odd number of independent votes of a bias (twice the probability, minus 1)."""
    p = (1.0 + bias) / 2.0
    right = sum(
        math.comb(children, k) * p**k * (1.0 - p) ** (children - k) for k in range(children // 2 + 1, children + 1)
    )
    return 2.0 * right - 1.0


def slope(children: int) -> float:
    """How much a majority of an odd number of votes multiplies a small bias."""
    return children * math.comb(children - 1, (children - 1) // 2) / 2.0 ** (children - 1)


def amplification(children: int, correlation: float, fidelity: float) -> float:
    """α: how much a level of the tree multiplies a small bias."""
    return fidelity * ((1.0 - correlation) * slope(children) + correlation)


def organization(children: int, correlation: float, fidelity: float) -> float:
    """s: exponent of the bias in the number of leaves."""
    return math.log(amplification(children, correlation, fidelity)) / math.log(children)


def level(bias: float, children: int, correlation: float, fidelity: float) -> float:
    """Bias one level up, exactly: children that share one vote with the correlation, independent ones otherwise."""
    heard = fidelity * bias
    return (1.0 - correlation) * majority(heard, children) + correlation * heard


def _synergy(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    children = int(v["children"])
    if children % 2 == 0:
        raise BadInput(Problem("children", "must be odd, so that votes cannot tie", children))
    alpha = amplification(children, v["correlation"], v["fidelity"])
    s = organization(children, v["correlation"], v["fidelity"]) if alpha > 0 else -math.inf
    return {
        "organization_exponent": s,
        "amplification": alpha,
        "synergy": float(s > v["beta"]),
        "gain_a_level": children ** (s - v["beta"]),
    }


LAWS.add(
    "budgeted-multi-agent",
    Law(
        id="budgeted-multi-agent",
        title="Trees of agents against one agent with the same budget",
        source=f"Liu et al. 2026, {card('budgeted-multi-agent').title}, boundary s > β",
        link="https://arxiv.org/abs/2601.17311",
        confirmed="boundary and its ingredients on six public pages; the slope α is derived here",
        valid="votes with small bias, odd fan-in, a shared error with the stated correlation",
        grade="theory",
        quantities={
            "children": Quantity(doc="fan-in b of a majority", low=3.0, least=3.0, most=999.0, whole=True),
            "correlation": Quantity(doc="probability that all children share one vote", default=0.0, most=1.0),
            "fidelity": Quantity(doc="share γ of the signal that messages keep", default=1.0, least=1e-9, most=1.0),
            "beta": Quantity(doc="exponent of one agent's bias in its budget"),
        },
        questions=(
            Question(
                id="synergy",
                summary="Whether a tree beats one agent, and by how much with each level.",
                needs=("children", "beta"),
                may=("correlation", "fidelity"),
                units={"organization_exponent": "", "amplification": "", "synergy": "", "gain_a_level": ""},
                answer=_synergy,
            ),
        ),
    ),
)
