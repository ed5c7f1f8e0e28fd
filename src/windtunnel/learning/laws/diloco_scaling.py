"""Loss of DiLoCo and of data parallelism over model size and workers, as its authors fitted it.

Decoder-only models trained on 20 tokens a parameter with tuned learning rates and batches. DiLoCo exchanges each 30
steps; the joint fit over sizes and workers is L = 19.226·N^−0.0985·M^0.0116, data parallelism is 18.129·N^−0.0953.

Source: Charles et al. 2025 (arXiv 2503.09799), tables 7 to 10. Valid for: 35M to 10B parameters, 1 to 8 workers, rounds
of 30 steps; models up to 2.4B were fitted, larger ones (4B, 10B) were predicted and then trained. Coefficients are
those of `windtunnel.laws`; here the law knows algorithms, rounds and workers of a scenario.
"""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.laws import LAWS as PUBLISHED
from windtunnel.learning.laws import LAWS, LawCase

LEAST, MOST = 35e6, 10.5e9
"""Parameters; the largest model is named 10B."""
MOST_WORKERS = 8
PERIOD = 30


@dataclass(frozen=True, slots=True)
class DilocoScaling:
    """The joint fit and the one of data parallelism."""

    id: str = "diloco-scaling"
    source: str = "Charles et al. 2025 (arXiv 2503.09799), tables 7 to 10"

    def outside(self, case: LawCase) -> str:
        """See `Law.outside`."""
        if case.algorithm not in ("data_parallel", "diloco"):
            return f"speaks of data_parallel and diloco, not of {case.algorithm}"
        if not LEAST <= case.parameters <= MOST:
            return f"speaks of 35M to 10B parameters, not of {case.parameters:.3g}"
        if case.algorithm == "diloco" and case.period != PERIOD:
            return f"speaks of rounds of {PERIOD} steps, not of {case.period}"
        if case.algorithm == "diloco" and case.workers > MOST_WORKERS:
            return f"speaks of 1 to {MOST_WORKERS} workers, not of {case.workers}"
        return ""

    def loss(self, case: LawCase) -> float:
        """See `Law.loss`."""
        given = {"parameters": case.parameters}
        if case.algorithm != "data_parallel":
            given["workers"] = float(case.workers)
        return PUBLISHED.get("diloco-scaling").predict(given).values["loss"].value


LAWS.add("diloco-scaling", DilocoScaling())
