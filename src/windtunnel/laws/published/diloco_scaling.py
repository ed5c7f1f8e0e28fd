"""Loss of DiLoCo and of data parallelism over model size and workers.

Source: Charles et al. 2025 (arXiv 2503.09799), tables 7 to 10: decoders on 20 tokens a parameter with tuned learning
rates, rounds of 30 steps. 35M to 2.4B parameters were fitted, 4B and 10B predicted and then trained.
"""

from __future__ import annotations

from windtunnel.laws import LAWS, Coefficient, Law, Quantity, Question

LAWS.add(
    "diloco-scaling",
    Law(
        id="diloco-scaling",
        title="DiLoCo: loss over parameters and workers, compared with data parallelism",
        source="Charles et al. 2025, Communication-Efficient Language Model Training Scales Reliably, tables 7 to 10",
        link="https://arxiv.org/abs/2503.09799",
        confirmed="as in learning.laws, which takes its coefficients from here",
        valid="35M to 10.5B parameters, 1 to 8 workers, rounds of 30 steps, 20 tokens a parameter",
        quantities={
            "parameters": Quantity(doc="model size", unit="parameters", low=35e6, high=10.5e9, least=1),
            "workers": Quantity(doc="workers that average every 30 steps", low=1, high=8, least=1, whole=True),
        },
        questions=(
            Question(
                id="data-parallel",
                summary="Loss of data parallelism.",
                needs=("parameters",),
                units={"loss": "nats/token"},
                answer=lambda v, c: {"loss": c["A_dp"] * v["parameters"] ** c["alpha_dp"]},
            ),
            Question(
                id="diloco",
                summary="Loss of DiLoCo with so many workers.",
                needs=("parameters", "workers"),
                units={"loss": "nats/token"},
                answer=lambda v, c: {
                    "loss": c["A"] * v["parameters"] ** c["alpha"] * v["workers"] ** c["beta"],
                },
            ),
        ),
        tables={
            "": {
                "A": Coefficient(value=19.226, rounding=0.0005),
                "alpha": Coefficient(value=-0.0985, rounding=0.00005),
                "beta": Coefficient(value=0.0116, rounding=0.00005),
                "A_dp": Coefficient(value=18.129, rounding=0.0005),
                "alpha_dp": Coefficient(value=-0.0953, rounding=0.00005),
            }
        },
        notes=("no errors are printed: the interval is that of rounding alone",),
    ),
)
