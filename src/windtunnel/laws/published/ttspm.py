"""When more samples, or more rounds of thinking, stop paying: F(N) = F_max·(1 − (1 − p)^N).

Source: Wang et al. 2025, Scaling over Scaling (arXiv 2505.20522), TTSPM: samples and rounds saturate alike;
the next one gains F_max·p·(1 − p)^N, and the saturation point is the first N at which that is below a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from windtunnel.laws import LAWS, Law, Quantity, Question, Values


def reached(p: float, samples: float, ceiling: float = 1.0) -> float:
    """F after so many samples; precise where p is tiny."""
    return ceiling * -math.expm1(samples * math.log1p(-p)) if p < 1.0 else ceiling * float(samples > 0)


def next_gain(p: float, samples: float, ceiling: float = 1.0) -> float:
    """What one sample more adds."""
    return float(ceiling * p * (1.0 - p) ** samples)


def saturation(p: float, threshold: float, ceiling: float = 1.0) -> int:
    """The least N at which one sample more gains less than the threshold."""
    if ceiling * p < threshold:
        return 0
    if p >= 1.0:
        return 1
    n = max(0, math.floor(math.log(threshold / (ceiling * p)) / math.log1p(-p)))
    while next_gain(p, n, ceiling) >= threshold:  # the logarithm rounds; equality is not below
        n += 1
    while n and next_gain(p, n - 1, ceiling) < threshold:
        n -= 1
    return n


def _stop(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    p, ceiling = v["p"], v["ceiling"]
    n = saturation(p, v["threshold"], ceiling)
    return {"samples": float(n), "success": reached(p, n, ceiling), "next_gain": next_gain(p, n, ceiling)}


LAWS.add(
    "ttspm",
    Law(
        id="ttspm",
        title="TTSPM: where more samples or rounds stop paying",
        source="Wang et al. 2025, Scaling over Scaling, the saturation point of F(N) = F_max(1 − (1 − p)^N)",
        link="https://arxiv.org/abs/2505.20522",
        confirmed="form as in the research catalogue; arithmetic on what is given, no coefficients",
        valid="attempts that succeed independently with the same probability",
        grade="exact",
        quantities={
            "p": Quantity(doc="success of one sample or round, over the ceiling", low=0.0, high=1.0, most=1.0),
            "samples": Quantity(doc="samples or rounds", low=0.0, whole=True),
            "threshold": Quantity(doc="least gain that pays for one more", low=0.0, high=1.0, least=1e-300, most=1.0),
            "ceiling": Quantity(doc="F_max, success of infinitely many", low=0.0, high=1.0, most=1.0, default=1.0),
        },
        questions=(
            Question(
                id="success",
                summary="Success after so many samples, and what one more adds.",
                needs=("p", "samples"),
                may=("ceiling",),
                units={"success": "share", "next_gain": "share"},
                answer=lambda v, _: {
                    "success": reached(v["p"], v["samples"], v["ceiling"]),
                    "next_gain": next_gain(v["p"], v["samples"], v["ceiling"]),
                },
            ),
            Question(
                id="stop",
                summary="The least number of samples at which one more gains less than the threshold.",
                needs=("p", "threshold"),
                may=("ceiling",),
                units={"samples": "", "success": "share", "next_gain": "share"},
                answer=_stop,
            ),
        ),
    ),
)
