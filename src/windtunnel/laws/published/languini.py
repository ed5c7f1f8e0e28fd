"""Two architectures at equal accelerator hours: tokens by throughput, and where two loss curves cross.

Source: Stanić et al. 2023, The Languini Kitchen (arXiv 2309.11197): a model is trained on throughput × hours tokens;
log perplexity over log hours is a line for each architecture, and GPT's and the quasi-LSTM's meet at about 50,000 hours
of an RTX 3090. Throughputs are those of the authors' repository (languini-kitchen/languini-kitchen, README files of
both projects, commit bb7afb4c). The slopes are printed in the paper alone, of which no text
was at hand: they are given by the user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from windtunnel.errors import BadInput, Problem
from windtunnel.laws import LAWS, Law, Quantity, Question, Values

THROUGHPUT = {
    "gpt-small": 55416.0,
    "gpt-medium": 16618.0,
    "qlstm-mini": 94781.0,
    "qlstm-tiny": 36930.0,
    "qlstm-small": 11143.0,
}
"""Tokens a second of an RTX 3090 at sequences of 512."""


def crossing(first: tuple[float, float, float], second: tuple[float, float, float]) -> float:
    """Hours at which two curves meet; infinity where they never do.

    Args:
        first: log perplexity at so many hours, those hours, and by how much it falls with each e-fold of hours.
        second: the other one.
    """
    (y1, h1, s1), (y2, h2, s2) = first, second
    if s1 == s2:
        return math.inf
    at = (y1 + s1 * math.log(h1) - y2 - s2 * math.log(h2)) / (s1 - s2)
    return math.exp(at) if at < 700.0 else math.inf


def _crossing(v: Values, _: Mapping[str, float]) -> dict[str, float]:
    if v["slope1"] == v["slope2"]:
        raise BadInput(Problem("slope2", "must differ from slope1: parallel lines do not meet", v["slope2"]))
    hours = crossing((v["loss1"], v["hours"], v["slope1"]), (v["loss2"], v["hours"], v["slope2"]))
    return {"crossing_hours": hours, "loss": v["loss1"] - v["slope1"] * math.log(hours / v["hours"])}


LAWS.add(
    "languini",
    Law(
        id="languini",
        title="Languini Kitchen: architectures at equal accelerator hours",
        source="Stanić et al. 2023, The Languini Kitchen, protocol and throughputs of its repository",
        link="https://arxiv.org/abs/2309.11197",
        confirmed="throughputs in the authors' repository, 50,000 hours on six public pages; slopes not at hand",
        valid="6 to 96 hours of an RTX 3090; the published crossing is an extrapolation by three orders of magnitude",
        grade="exact",
        quantities={
            "model": Quantity(doc="baseline of the paper", choices=tuple(THROUGHPUT)),
            "hours": Quantity(doc="accelerator hours", unit="h", low=6.0, high=96.0, least=1e-6),
            "loss1": Quantity(doc="log perplexity of the first architecture at these hours", unit="nats/token"),
            "slope1": Quantity(doc="its fall with each e-fold of hours", unit="nats/token"),
            "loss2": Quantity(doc="log perplexity of the second one at these hours", unit="nats/token"),
            "slope2": Quantity(doc="its fall with each e-fold of hours", unit="nats/token"),
        },
        questions=(
            Question(
                id="tokens",
                summary="Tokens that a baseline is trained on in so many hours.",
                needs=("model", "hours"),
                units={"tokens": "tokens"},
                answer=lambda v, _: {"tokens": THROUGHPUT[v["model"]] * 3600.0 * v["hours"]},
            ),
            Question(
                id="crossing",
                summary="Hours at which two curves of log perplexity meet.",
                needs=("hours", "loss1", "slope1", "loss2", "slope2"),
                units={"crossing_hours": "h", "loss": "nats/token"},
                answer=_crossing,
                unreachable="the lines do not meet",
            ),
        ),
    ),
)
