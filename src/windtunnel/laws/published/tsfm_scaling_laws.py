"""Loss of foundation models of time series over parameters, data and compute, by architecture and test data.

Source: Yao et al. 2025 (arXiv 2410.12360), figures 2 to 4; coefficients as printed in the figures of its repository
(Qingrenn/TSFM-ScalingLaws, analysis/*.ipynb, commit d157a26a): L = (X_c/X)^α for X parameters, points or PF-days. Test
data: `id` (in distribution), `lsf` and `monash` (out of it). Encoders fall faster than decoders everywhere but over
the data of `monash`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windtunnel.laws import LAWS, Coefficient, Law, Quantity, Question, Values
from windtunnel.systems import card

PF_DAY_FLOP = 8.64e19
PRINTED = {
    "encoder/id": ((3.7e16, 0.029), (5.3e12, 0.094), (1.5e7, 0.024)),
    "encoder/lsf": ((1.4e31, 0.026), (9.6e30, 0.029), (3.9e26, 0.020)),
    "encoder/monash": ((6.7e36, 0.023), (1.0e39, 0.023), (2.8e29, 0.020)),
    "decoder/id": ((2.0e34, 0.015), (9.9e13, 0.090), (6.0e23, 0.014)),
    "decoder/lsf": ((2.9e47, 0.016), (1.1e44, 0.019), (1.9e33, 0.017)),
    "decoder/monash": ((1.5e48, 0.017), (4.4e31, 0.030), (1.4e47, 0.013)),
}
"""Architecture and test data → (X_c, α) over parameters, points and PF-days."""
AXES = {"parameters": 1.0, "points": 1.0, "flop": PF_DAY_FLOP}


def _power(axis: str, unit: float) -> Callable[[Values, Mapping[str, float]], dict[str, float]]:
    def answer(v: Values, c: Mapping[str, float]) -> dict[str, float]:
        return {"loss": (c[f"X_{axis}"] / (v[axis] / unit)) ** c[f"alpha_{axis}"]}

    return answer


def _table(rows: tuple[tuple[float, float], ...]) -> dict[str, Coefficient]:
    out = dict[str, Coefficient]()
    for axis, (scale, alpha) in zip(AXES, rows, strict=True):
        out[f"X_{axis}"] = Coefficient(value=scale)
        out[f"alpha_{axis}"] = Coefficient(value=alpha, rounding=0.0005)
    return out


LAWS.add(
    "tsfm-scaling-laws",
    Law(
        id="tsfm-scaling-laws",
        title="Time-series foundation models: loss over parameters, data and compute",
        source=f"Yao et al. 2025, {card('tsfm-scaling-laws').title}, figures 2 to 4",
        link="https://arxiv.org/abs/2410.12360",
        confirmed="printed in the figures of the authors' notebooks",
        valid="1K to 300M parameters, 10M to 16B points, 4e-12 to 1.3e-4 PF-days",
        quantities={
            "architecture": Quantity(doc="which transformer", choices=("encoder", "decoder")),
            "data": Quantity(doc="test data", choices=("id", "lsf", "monash")),
            "parameters": Quantity(doc="model size", unit="parameters", low=872, high=3.02e8, least=1),
            "points": Quantity(doc="points of training data", unit="points", low=1e7, high=1.57e10, least=1),
            "flop": Quantity(
                doc="training budget", unit="FLOP", low=4e-12 * PF_DAY_FLOP, high=1.3e-4 * PF_DAY_FLOP, least=1
            ),
        },
        questions=tuple(
            Question(
                id=f"loss-over-{axis}",
                summary=f"Negative log likelihood over {axis}, what else there is being ample.",
                needs=("architecture", "data", axis),
                units={"loss": "nats/point"},
                answer=_power(axis, unit),
            )
            for axis, unit in AXES.items()
        ),
        tables={key: _table(rows) for key, rows in PRINTED.items()},
        by=("architecture", "data"),
        notes=("exponents are printed with two digits and scales are huge: rounding alone is 1 to 5 % of the loss",),
    ),
)
