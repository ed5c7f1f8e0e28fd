"""Chinchilla's law fitted again to its authors' points, read off their figure.

Source: Besiroglu, Erdil, Barnett and You 2024 (arXiv 2404.10102), table 1: 240 points, Huber loss, standard errors from
4,000 bootstraps. Parameters and tokens grow alike (exponents 0.51 and 0.49 of compute), about 20 tokens a parameter.
"""

from __future__ import annotations

from windtunnel.laws import LAWS, Coefficient, Law
from windtunnel.laws.power_sum import LOSS, OPTIMUM, TOKENS, pivoted, quantities

LAWS.add(
    "chinchilla-refit",
    Law(
        id="chinchilla-refit",
        title="Chinchilla fitted again: loss of language models over parameters and tokens",
        source="Besiroglu et al. 2024, Chinchilla Scaling: A Replication Attempt, table 1",
        link="https://arxiv.org/abs/2404.10102",
        confirmed="five coefficients with their standard errors in two public repositories",
        valid="the runs of chinchilla: 70M to 16B parameters on 5B to 500B tokens, Chinchilla at 5.76e23 FLOP",
        quantities=quantities((70e6, 16e9), (5e9, 500e9), (6e18, 5.76e23)),
        questions=(LOSS, OPTIMUM, TOKENS),
        tables={
            "": {
                "E": Coefficient(value=1.8172, error=0.03),
                "A": Coefficient(value=482.01, error=124.58),
                "B": Coefficient(value=2085.43, error=1293.23),
                "alpha": Coefficient(value=0.3478, error=0.02),
                "beta": Coefficient(value=0.3658, error=0.02),
            }
        },
        moved=pivoted(1e9, 50e9),
        notes=("A and B move with their exponents, as in the fit: their own errors are not added again",),
    ),
)
