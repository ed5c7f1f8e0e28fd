"""Which pools of data are best at a budget, when repeated data loses its utility with a half-life.

Source: Goyal et al. 2024, Scaling Laws for Data Filtering (arXiv 2404.07177), equations 2 to 4 and theorem 1, as in the
authors' repository (locuslab/scaling_laws_data_filtering, objective.py, commit ba376634): the error is y = n^(−b) with
a utility b·(1/2)^(k/τ) in epoch k, so that each epoch multiplies it by (n_k/n_(k−1))^(−b_k). The utility of a mixture
is the mean of its pools', and its half-life in epochs grows with the number of pools; n is `a` × samples / 100,000.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.errors import BadInput, Problem
from windtunnel.laws import LAWS, Law, Quantity, Question, Values

SAMPLES = 100_000.0
MOST_EPOCHS = 10_000


def error(
    seen: float, utilities: Sequence[float], half_lives: Sequence[float], pool: float, scale: float, floor: float
) -> float:
    """Error after so many samples of a mixture of equal pools.

    Args:
        seen: samples that are trained on, repeated ones too.
        utilities: b of each pool, above 0.
        half_lives: epochs of a pool alone after which its utility has halved.
        pool: samples of each pool.
        scale: `a` of the law.
        floor: error that no data goes below.
    """
    count = len(utilities)
    size = pool * count

    def utility(epoch: int) -> float:
        pairs = zip(utilities, half_lives, strict=True)
        return float(sum(b * 0.5 ** (epoch / (tau * count)) for b, tau in pairs) / count)

    value = floor + (scale * min(size, seen) / SAMPLES) ** -utility(0)
    epoch = 1
    while epoch * size < seen:
        value *= (min((epoch + 1) * size, seen) / (epoch * size)) ** -utility(epoch)
        epoch += 1
    return float(value)


def best(
    seen: float, utilities: Sequence[float], half_lives: Sequence[float], pool: float, scale: float, floor: float
) -> int:
    """How many pools, best first, have the least error."""
    counts = range(1, len(utilities) + 1)
    return min(counts, key=lambda n: error(seen, utilities[:n], half_lives[:n], pool, scale, floor))


def _answer(v: Values, _: object) -> dict[str, float]:
    pairs = sorted(zip(v["utilities"], v["half_lives"], strict=False), reverse=True)
    if len(v["utilities"]) != len(v["half_lives"]):
        raise BadInput(Problem("half_lives", "must be as many as utilities", list(v["half_lives"])))
    if min(v["utilities"]) <= 0 or min(v["half_lives"]) <= 0:
        raise BadInput(Problem("utilities", "utilities and half-lives must be above 0", list(v["utilities"])))
    if v["samples"] > MOST_EPOCHS * v["pool"]:
        raise BadInput(Problem("samples", f"must be at most {MOST_EPOCHS:,} epochs of a pool", v["samples"]))
    b, tau = [one for one, _ in pairs], [one for _, one in pairs]
    rest = (v["pool"], v["scale"], v["floor"])
    pools = best(v["samples"], b, tau, *rest)
    return {
        "pools": float(pools),
        "error": error(v["samples"], b[:pools], tau[:pools], *rest),
        "error_of_best_alone": error(v["samples"], b[:1], tau[:1], *rest),
        "error_of_all": error(v["samples"], b, tau, *rest),
        "epochs": v["samples"] / (v["pool"] * pools),
    }


LAWS.add(
    "qqt-data-filtering",
    Law(
        id="qqt-data-filtering",
        title="Quality against quantity: the best pools of data at a budget",
        source="Goyal et al. 2024, Scaling Laws for Data Filtering, equations 2 to 4, theorem 1",
        link="https://arxiv.org/abs/2404.07177",
        confirmed="form, a = 0.022 and floor 0.1 in the authors' repository; utilities of pools are fitted by users",
        valid="CLIP on DataComp, pools of 12.8M pairs, 32M to 640M samples seen",
        grade="theory",
        quantities={
            "samples": Quantity(doc="samples trained on", unit="samples", low=32e6, high=640e6, least=1e6, most=1e13),
            "utilities": Quantity(doc="b of each pool, fitted on it alone", many=True),
            "half_lives": Quantity(doc="epochs of a pool after which its utility halves", many=True),
            "pool": Quantity(doc="samples of a pool", unit="samples", default=12.8e6, least=1e5),
            "scale": Quantity(doc="a of the law", default=0.022, least=1e-6, most=1.0),
            "floor": Quantity(doc="error that no data goes below", default=0.1, most=1.0),
        },
        questions=(
            Question(
                id="pools",
                summary="How many pools, best first, give the least error at so many samples seen.",
                needs=("samples", "utilities", "half_lives"),
                may=("pool", "scale", "floor"),
                units={"pools": "", "error": "", "error_of_best_alone": "", "error_of_all": "", "epochs": ""},
                answer=_answer,
            ),
        ),
        notes=("utilities carry no interval: fit them on pools of your own, several times",),
    ),
)
